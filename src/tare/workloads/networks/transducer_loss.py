"""The loss of a transducer (Graves, Sequence Transduction, 2012): minus the log probability of a text over all its
alignments with the frames.

An alignment is a path through the lattice of frames and words: a blank goes to the next frame, a word to the next
place in the text, and the last frame ends with a blank. The forward variables of a diagonal depend on the one
before alone: a step takes a whole diagonal. Only torch's operators are used: any precision and any device will do,
and autograd has the backward variables.
"""

from typing import Any

import torch
from torch.nn import functional

# In place of minus infinity, whose differences have no gradient; float32 can hold the sum of thousands of it.
NEVER = -1e30
BLANK = 0


def transducer_loss(scores: Any, words: Any) -> Any:
    """The mean over the batch. `scores` are (batch, frames, words + 1, vocabulary), not yet normalised."""
    total = scores.logsumexp(-1)
    blank = scores[..., BLANK] - total
    places = words[:, None, :, None].expand(-1, scores.shape[1], -1, 1)
    word = scores[:, :, :-1].gather(-1, places).squeeze(-1) - total[:, :, :-1]
    # One place more, so that both have the lattice's shape: no word leads beyond the last.
    blanks, emitted = skewed(blank).unbind(1), skewed(functional.pad(word, (0, 1))).unbind(1)
    reached = functional.pad(torch.zeros_like(blank[:, 0, :1]), (0, words.shape[1]), value=NEVER)
    for stay, speak in zip(blanks[:-1], emitted[:-1], strict=True):
        spoken = functional.pad((reached + speak)[:, :-1], (1, 0), value=NEVER)
        reached = torch.logaddexp(reached + stay, spoken)
    return -(reached + blanks[-1])[:, -1].mean()


def skewed(lattice: Any) -> Any:
    """(batch, frames, places) as (batch, diagonals, places): row n holds frame n - u of place u.

    Outside the lattice stand zeros. They do no harm: what comes before the first frame starts as NEVER and stays
    so, and from beyond the last no path leads back.
    """
    batch, frames, places = lattice.shape
    # Each place's frames, padded by the number of places and read in rows one shorter, move by one a row.
    flat = functional.pad(lattice.transpose(1, 2), (0, places)).flatten(1)
    return flat[:, :-places].view(batch, places, frames + places - 1).transpose(1, 2)
