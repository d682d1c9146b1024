"""The loss of the transducer: against every alignment added up, and against torchaudio's."""

import itertools

import pytest
import torch

from tare.workloads.networks.transducer_loss import transducer_loss


def by_hand(scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Every order of blanks and words that ends with a blank, its probability multiplied out."""
    frames, places = scores.shape[1:3]
    moves = frames - 1 + places - 1
    losses = []
    for logs, said in zip(scores.log_softmax(-1), words, strict=True):
        paths = []
        for spoken in itertools.combinations(range(moves), places - 1):
            frame = place = 0
            path = torch.zeros((), dtype=scores.dtype)
            for move in range(moves):
                if move in spoken:
                    path, place = path + logs[frame, place, said[place]], place + 1
                else:
                    path, frame = path + logs[frame, place, 0], frame + 1
            paths.append(path + logs[frame, place, 0])
        losses.append(-torch.stack(paths).logsumexp(0))
    return torch.stack(losses).mean()


@pytest.mark.parametrize(("frames", "length"), [(1, 1), (1, 3), (2, 1), (3, 2), (2, 4), (5, 3)])
def test_it_is_the_sum_over_all_alignments(frames: int, length: int) -> None:
    torch.manual_seed(frames * 10 + length)
    scores = torch.randn(2, frames, length + 1, 5, dtype=torch.float64, requires_grad=True)
    words = torch.randint(1, 5, (2, length))
    found, wanted = transducer_loss(scores, words), by_hand(scores, words)
    assert found.item() == pytest.approx(wanted.item(), rel=1e-12)
    slope, right = (torch.autograd.grad(loss, scores)[0] for loss in (found, wanted))
    assert torch.allclose(slope, right, rtol=1e-9, atol=1e-12)


def test_equal_scores_give_the_number_of_alignments() -> None:
    """T + U symbols, each one of V with equal scores: V^(T + U) texts, (T + U - 1 over U) of them ours."""
    loss = transducer_loss(torch.zeros(1, 4, 4, 2, dtype=torch.float64), torch.ones(1, 3, dtype=torch.long))
    assert loss.exp().item() == pytest.approx(2**7 / 20)


def test_it_is_torchaudio_s_on_a_larger_lattice() -> None:
    functional = pytest.importorskip("torchaudio.functional")
    torch.manual_seed(3)
    scores = torch.randn(3, 30, 11, 20, requires_grad=True)
    words = torch.randint(1, 20, (3, 10))
    lengths = torch.full((3,), 30, dtype=torch.int32), torch.full((3,), 10, dtype=torch.int32)
    wanted = functional.rnnt_loss(scores, words.int(), *lengths, blank=0)
    found = transducer_loss(scores, words)
    assert found.item() == pytest.approx(wanted.item(), rel=1e-5)
    slope, right = (torch.autograd.grad(loss, scores)[0] for loss in (found, wanted))
    assert torch.allclose(slope, right, atol=1e-5)


def test_in_float32_it_is_as_good_on_a_lattice_of_full_size() -> None:
    torch.manual_seed(4)
    scores = 3 * torch.randn(1, 200, 41, 30)
    words = torch.randint(1, 30, (1, 40))
    slopes = []
    for dtype in (torch.float32, torch.float64):
        leaf = scores.to(dtype, copy=True).requires_grad_()
        transducer_loss(leaf, words).backward()
        assert leaf.grad is not None
        slopes.append(leaf.grad.double())
    assert float((slopes[0] - slopes[1]).norm() / slopes[1].norm()) < 1e-3
