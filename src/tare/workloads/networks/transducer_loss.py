"""The loss of a transducer (Graves, Sequence Transduction, 2012): minus the log probability of a text over all its
alignments with the frames.

An alignment is a path through the lattice of frames and words: a blank moves to the next frame, a word to the next
position in the text, and a blank in the last frame ends the path. The forward variables of one position over all
frames are a cumulative sum over those of the position before, relative to the blanks. So each iteration computes a
whole position. The usual order is by anti-diagonals, but there are more of them and Inductor unrolls the loop: it
compiles 41 positions in seconds, and took minutes for 65 diagonals. Only torch's operators are used, so that any
precision and any device work, and autograd computes the gradient.
"""

from typing import Any

from torch.nn import functional

BLANK = 0


def transducer_loss(scores: Any, words: Any) -> Any:
    """The mean over the batch. `scores` are (batch, frames, words + 1, vocabulary), not yet normalised."""
    total = scores.logsumexp(-1)
    blank = scores[..., BLANK] - total
    word_index = words[:, None, :, None].expand(-1, scores.shape[1], -1, 1)
    word = scores[:, :, :-1].gather(-1, word_index).squeeze(-1) - total[:, :, :-1]
    # The log probability of only blanks at a position, from the first frame up to each frame.
    waits = functional.pad(blank[:, :-1].cumsum(1), (0, 0, 1, 0)).unbind(2)
    reached = waits[0]
    for emitted, wait in zip(word.unbind(2), waits[1:], strict=True):
        reached = wait + (reached + emitted - wait).logcumsumexp(1)
    return -(reached[:, -1] + blank[:, -1, -1]).mean()
