"""Networks written here, where the right answer is known."""

from typing import Any

import pytest
import torch
from torch.nn import functional

from tare.workloads import get_workload


def test_the_density_of_sea_water_has_the_published_check_values() -> None:
    """Jackett et al. (2006), below their table of coefficients."""
    from tare.workloads.networks.sea_water import density_slopes

    state = torch.tensor([[35.0, 25, 2000], [20, 20, 1000], [40, 12, 8000]], dtype=torch.float64)
    salt, heat, pressure = state.unbind(1)
    density, by_heat, by_salt = density_slopes(salt, heat, pressure)
    assert density.tolist() == pytest.approx([1031.65056056576, 1017.72886801964, 1062.95279820631], rel=1e-12)
    step = 1e-5
    assert torch.allclose((density_slopes(salt, heat + step, pressure)[0] - density) / step, by_heat, rtol=1e-3)
    assert torch.allclose((density_slopes(salt + step, heat, pressure)[0] - density) / step, by_salt, rtol=1e-3)


def test_thomas_solves_the_columns() -> None:
    from tare.workloads.networks.ocean import tridiagonal

    torch.manual_seed(0)
    below, above, right = torch.rand(3, 4, 7, dtype=torch.float64)
    diagonal = 3 + torch.rand(4, 7, dtype=torch.float64)
    full = torch.diag_embed(diagonal) + torch.diag_embed(above[:, :-1], 1) + torch.diag_embed(below[:, 1:], -1)
    assert torch.allclose(tridiagonal(below, diagonal, above, right), torch.linalg.solve(full, right))


def test_the_scan_of_mamba_is_the_recurrence() -> None:
    from tare.workloads.networks.mamba import scan

    torch.manual_seed(0)
    x, b, c = (torch.randn(2, 12, *s, dtype=torch.float64) for s in ((3, 4), (5,), (5,)))
    decay = -torch.rand(2, 12, 3, dtype=torch.float64)
    state = torch.zeros(2, 3, 4, 5, dtype=torch.float64)
    wanted = []
    for t in range(12):
        state = decay[:, t].exp()[..., None, None] * state + torch.einsum("bhp,bs->bhps", x[:, t], b[:, t])
        wanted.append(torch.einsum("bhps,bs->bhp", state, c[:, t]))
    assert torch.allclose(scan(x, decay, b, c, chunk=4), torch.stack(wanted, dim=1))


def test_decoding_after_a_prefill_gives_the_prefill_s_scores() -> None:
    workload = get_workload("llama_prefill")
    sizes = workload.smoke_sizes
    model = workload.build(sizes).double()
    from tare.workloads.networks.llama import Decode

    tokens = workload.inputs(2, sizes).args[0]
    length, size = tokens.shape[1], sizes["width"] // sizes["heads"]
    cache = torch.zeros(sizes["layers"], 2, 2, sizes["groups"], length, size, dtype=torch.float64)
    with torch.no_grad():
        scores = [Decode(model)(tokens[:, i : i + 1], torch.tensor([i]), cache) for i in range(length)]
        assert torch.allclose(torch.cat(scores, dim=1), model(tokens))


def test_int8_weights_are_within_half_a_step_of_the_real_ones() -> None:
    from tare.workloads.networks.int8 import Int8Linear

    torch.manual_seed(1)
    layer = Int8Linear(32, 16)
    torch.manual_seed(1)
    weight = torch.nn.Linear(32, 16, False).weight
    assert layer.weight.dtype == torch.int8
    x = torch.randn(4, 32)
    assert functional.mse_loss(layer(x), x @ weight.t()) < 1e-4
    assert bool(((layer.weight * layer.scale[:, None] - weight).abs() <= 0.5001 * layer.scale[:, None]).all())


def test_experts_with_room_for_all_are_a_weighted_sum_of_feed_forward_networks(monkeypatch: Any) -> None:
    from tare.workloads.networks import moe

    monkeypatch.setattr(moe, "CAPACITY", 100.0)
    torch.manual_seed(2)
    layer = moe.Experts(8, 6, 4, 2).double()
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    weights, chosen = layer.router(x[0]).softmax(-1).topk(2)
    weights = weights / weights.sum(-1, keepdim=True)
    wanted = torch.zeros(5, 8, dtype=torch.float64)
    for token in range(5):
        for weight, expert in zip(weights[token], chosen[token], strict=True):
            y = functional.silu(x[0, token] @ layer.gate[expert]) * (x[0, token] @ layer.up[expert])
            wanted[token] += weight * (y @ layer.down[expert])
    assert torch.allclose(layer(x)[0], wanted)


def test_private_gradients_are_the_same_by_hooks_and_by_vmap() -> None:
    slopes = {}
    for name in ("functorch_dp_cifar10", "opacus_cifar10"):
        workload = get_workload(name)
        model = workload.build(workload.smoke_sizes).double().train()
        images, labels = workload.inputs(3, workload.smoke_sizes).args
        model(images.double(), labels).backward()
        slopes[name] = torch.cat([p.grad.flatten() for p in model.network.parameters()])
    assert torch.allclose(*slopes.values())


def test_maml_in_a_loop_and_by_vmap_are_the_same() -> None:
    found = []
    for name in ("maml_omniglot", "functorch_maml_omniglot"):
        workload = get_workload(name)
        model = workload.build(workload.smoke_sizes).double().train()
        images, labels, queries = workload.inputs(2, workload.smoke_sizes).args
        found.append(model(images.double(), labels, queries.double()))
    assert torch.allclose(*found)


def test_the_inside_algorithm_sums_over_all_trees() -> None:
    """Three words have two binary trees: their probabilities, written out."""
    from tare.workloads.networks.grammar import NeuralGrammar

    torch.manual_seed(4)
    grammar = NeuralGrammar(vocabulary=5, rules=2, tags=3, width=8).double()
    words = torch.tensor([[1, 4, 2]])
    emit = grammar.word(grammar.tag)[:, words[0]].exp()
    split = grammar.split(grammar.rule).softmax(-1).view(2, 5, 5)
    root = grammar.root(grammar.start)[0].exp()
    pair = [torch.einsum("rab,a,b->r", split[:, 2:, 2:], emit[:, i], emit[:, i + 1]) for i in (0, 1)]
    trees = torch.einsum("rab,a,b->r", split[:, :2, 2:], pair[0], emit[:, 2])
    trees = trees + torch.einsum("rab,a,b->r", split[:, 2:, :2], emit[:, 0], pair[1])
    assert torch.allclose(grammar(words), (root * trees).sum().log()[None])


def test_the_generator_s_loss_does_not_move_the_discriminator() -> None:
    from tare.workloads.networks.frozen import frozen

    judge, x = torch.nn.Linear(3, 1), torch.randn(2, 3, requires_grad=True)
    frozen(judge, x).sum().backward()
    assert judge.weight.grad is None
    assert x.grad is not None
    assert torch.equal(x.grad, judge.weight.detach().expand(2, 3))


def test_lennard_jones_forces_are_minus_the_slope_of_the_energy() -> None:
    from tare.workloads.networks.lennard_jones import energy_and_force

    place = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    energy, force = energy_and_force(place)
    assert torch.allclose(-torch.autograd.grad(energy.sum(), place)[0], force)
    minimum = torch.tensor([[2 ** (1 / 6), 0.0, 0.0]], dtype=torch.float64)
    assert float(energy_and_force(minimum)[0]) == pytest.approx(-1.0)


def test_what_is_sampled_around_a_paper_can_be_counted() -> None:
    """Hop by hop: 15 papers, 2 authors, 4 fields, a journal and a conference around the first, and so on."""
    pytest.importorskip("torch_geometric")
    from tare.workloads.networks.rgat import RELATIONS, sampled

    counts, edges = sampled(1, (15,))
    assert counts == {"paper": 16, "author": 2, "institute": 0, "fos": 4, "journal": 1, "conference": 1}
    counts, edges = sampled(2, (15, 10, 5))
    assert sum(counts.values()) == 2 * (1 + 23 + 336 + 3332)
    reached = dict.fromkeys(counts, 0)
    for (source, _, target), found in zip(RELATIONS, edges, strict=True):
        reached[source] += len(found[0].unique())
        assert int(found[1].max()) < counts[target]
    # Every node but the two first is the source of exactly one edge.
    assert sum(found.shape[1] for found in edges) == sum(counts.values()) - 2
    assert reached == counts | {"paper": counts["paper"] - 2}


def test_rgat_is_as_wide_as_mlperf_s() -> None:
    """Eleven relations from 1024 to 512, then 512 to 512 twice, each with two vectors of attention and a bias."""
    pytest.importorskip("torch_geometric")
    workload = get_workload("rgat")
    with torch.device("meta"):
        model = workload.definition.build(**workload.defaults)
    relations = 11 * ((1024 + 512 + 512) * 512 + 3 * 3 * 512)
    assert sum(p.numel() for p in model.parameters()) == relations + (512 + 1) * 2983


def test_rgat_s_first_layer_at_a_paper_is_a_sum_over_relations_of_attention() -> None:
    """By the formula: softmax of leaky(a.Wx_i + b.Wx_j) over the neighbours of one relation, head by head."""
    pytest.importorskip("torch_geometric")
    from tare.workloads.networks.rgat import HEADS, KINDS, RELATIONS

    workload = get_workload("rgat")
    model = workload.build(workload.smoke_sizes).double()
    args = [x.double() if x.is_floating_point() else x for x in workload.inputs(2, workload.smoke_sizes).args]
    x, edges = dict(zip(KINDS, args[1:], strict=False)), dict(zip(RELATIONS, args[7:], strict=True))
    wanted = torch.zeros(16, dtype=torch.float64)
    for relation in (r for r in RELATIONS if r[2] == "paper"):
        layer = model.layers[0].convs[relation]
        near = x[relation[0]][edges[relation][0][edges[relation][1] == 0]]
        mine, theirs = (layer.lin(features).unflatten(-1, (HEADS, -1)) for features in (x["paper"][:1], near))
        weight = functional.leaky_relu((mine * layer.att_dst).sum(-1) + (theirs * layer.att_src).sum(-1), 0.2)
        wanted = wanted + (theirs * weight.softmax(0)[..., None]).sum(0).flatten() + layer.bias
    assert torch.allclose(model.layers[0](x, edges)["paper"][0], wanted)
