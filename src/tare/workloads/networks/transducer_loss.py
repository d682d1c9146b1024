"""The loss of a transducer (Graves, Sequence Transduction, 2012): minus the log probability of a text over all its
alignments with the frames.

An alignment is a path through the lattice of frames and words: a blank goes to the next frame, a word to the next
place in the text, and the last frame ends with a blank. At one place the forward variables over all frames are one
cumulative sum of what the place before says in each frame, counted in blanks waited since. So a step takes a whole
place. Usually it takes an anti-diagonal, but those are more, and Inductor unrolls the loop: 41 places take it
seconds, 65 diagonals took it minutes. Only torch's operators are used: any precision and any device will do, and
autograd has the backward variables.
"""

from typing import Any

from torch.nn import functional

BLANK = 0


def transducer_loss(scores: Any, words: Any) -> Any:
    """The mean over the batch. `scores` are (batch, frames, words + 1, vocabulary), not yet normalised."""
    total = scores.logsumexp(-1)
    blank = scores[..., BLANK] - total
    wanted = words[:, None, :, None].expand(-1, scores.shape[1], -1, 1)
    word = scores[:, :, :-1].gather(-1, wanted).squeeze(-1) - total[:, :, :-1]
    # The log probability of having waited at a place from the first frame up to each.
    waits = functional.pad(blank[:, :-1].cumsum(1), (0, 0, 1, 0)).unbind(2)
    reached = waits[0]
    for said, wait in zip(word.unbind(2), waits[1:], strict=True):
        reached = wait + (reached + said - wait).logcumsumexp(1)
    return -(reached[:, -1] + blank[:, -1, -1]).mean()
