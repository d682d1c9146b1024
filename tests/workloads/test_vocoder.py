"""Training of HiFi-GAN: spectrograms, discriminators, and which loss reaches which network."""

import math

import pytest
import torch

from tare.workloads import get_workload
from tare.workloads.networks.mel import RATE, LogMel, to_hertz, to_mel, triangles


def test_mels_and_hertz_by_slaney() -> None:
    assert to_mel(1000.0) == pytest.approx(15.0)
    assert to_mel(6400.0) == pytest.approx(42.0)
    mels = torch.tensor([0.0, 3.0, 15.0, 42.0], dtype=torch.float64)
    assert to_hertz(mels).tolist() == pytest.approx([0.0, 200.0, 1000.0, 6400.0])


@pytest.mark.parametrize("highest", [8000.0, RATE / 2])
def test_mel_filters_match_torchaudio(highest: float) -> None:
    functional = pytest.importorskip("torchaudio.functional")
    wanted = functional.melscale_fbanks(513, 0.0, highest, 80, RATE, "slaney", "slaney").t()
    assert torch.allclose(triangles(highest), wanted, atol=1e-6)


def test_a_tone_is_loudest_in_its_band() -> None:
    tone = (2 * math.pi * 1000.0 * torch.arange(8192, dtype=torch.float64) / RATE).sin()
    found = LogMel(8000.0).double()(tone[None, None])
    assert found.shape == (1, 80, 32)
    centres = to_hertz(torch.linspace(0.0, to_mel(8000.0), 82, dtype=torch.float64))[1:-1]
    nearest = (centres - 1000.0).abs().argmin()
    assert bool((found[0, :, 4:-4].argmax(0) == nearest).all())


def test_silence_is_clamped_and_has_a_gradient() -> None:
    waves = torch.zeros(1, 1, 1024, dtype=torch.float64, requires_grad=True)
    found = LogMel(8000.0).double()(waves)
    found.sum().backward()
    assert bool((found == math.log(1e-5)).any())
    assert waves.grad is not None
    assert bool(torch.isfinite(waves.grad).all())


def test_each_period_sees_its_own_samples_only() -> None:
    """The output for period three changes only for the phase whose samples were changed."""
    from tare.workloads.networks.hifigan_judges import PERIODS, Judges

    torch.manual_seed(0)
    judges, waves = Judges(4).eval(), torch.randn(1, 1, 990)
    other = waves.clone()
    other[..., 1::3] += 1.0
    before, after = (judges(x)[PERIODS.index(3)][-1] for x in (waves, other))
    assert (before != after).flatten(0, 2).any(0).tolist() == [False, True, False]


def test_discriminators_have_the_paper_s_size() -> None:
    from tare.workloads.networks.hifigan_judges import Judges

    with torch.device("meta"):
        judges = Judges(32)
    millions = [sum(p.numel() for p in part.parameters()) / 1e6 for part in (judges.periods, judges.scales)]
    # As the authors' code has them: 41.1 and 29.6 million.
    assert millions == pytest.approx([41.1, 29.6], rel=0.005)


@pytest.mark.full
def test_discriminators_get_gradients_from_their_own_loss_only() -> None:
    """One joint step gives the gradients of two separate steps."""
    workload = get_workload("hifigan")
    model = workload.build(workload.smoke_sizes).double().train()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    mel, waves = (x.double() for x in workload.inputs(1, workload.smoke_sizes).args)
    model(mel, waves).backward()
    found = [p.grad for p in model.judges.parameters()]
    model.load_state_dict(state)
    real, fake = model.judges(waves), model.judges(model.generator(mel).detach())
    loss = sum((r[-1] - 1).square().mean() + f[-1].square().mean() for r, f in zip(real, fake, strict=True))
    wanted = torch.autograd.grad(loss, list(model.judges.parameters()))
    assert all(a is not None and torch.allclose(a, b) for a, b in zip(found, wanted, strict=True))
