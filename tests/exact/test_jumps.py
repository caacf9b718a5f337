"""Networks that jump: sparse autoencoders, signs, rounding, experts. On lines beside the module itself and its
derivatives, cell by cell; on planes beside lines in them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

import regionscope as rs
from regionscope import exact, plot
from regionscope.exact import budget
from regionscope.network import patterns
from small_slices import SQUARE, Function

LINE = rs.Segment([-2.0], [3.0])


class Coder(nn.Module):
    """An encoder, an activation that jumps, and a decoder."""

    def __init__(self, act: Callable[[Coder, Tensor], Tensor], d: int = 6, m: int = 20) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(d, m), nn.Linear(m, d)
        self.act, self.level = act, nn.Parameter(torch.rand(m) / 2)

    def forward(self, x: Tensor) -> Any:
        return self.decode(self.act(self, self.encode(x)))


def top_k(net: Coder, z: Tensor) -> Tensor:
    """As in OpenAI's sparse autoencoders."""
    top = torch.topk(z, 4, dim=-1)
    result = torch.zeros_like(z)
    result.scatter_(-1, top.indices, F.relu(top.values))
    return result


def top_k_of_relu(net: Coder, z: Tensor) -> Tensor:
    """As in EleutherAI's."""
    values, indices = F.relu(z).topk(4, sorted=False)
    return z.new_zeros(z.shape).scatter_(-1, indices, values)


def experts(net: Coder, z: Tensor) -> Tensor:
    """The expert with the largest gate: each works on the gates here."""
    best = z.argmax(-1, keepdim=True)
    mixed = torch.relu(z) * (best == 1) + 2 * z * (best == 2)
    return mixed - torch.where(best == 3, z.flip(1), 1.0)


ACTS: dict[str, Callable[[Coder, Tensor], Tensor]] = {
    "JumpReLU": lambda net, z: z * (z > net.level),
    "JumpReLU with where": lambda net, z: torch.where(z >= net.level, F.relu(z), 0.0),
    "TopK": top_k,
    "TopK of ReLU": top_k_of_relu,
    "sign": lambda net, z: torch.sign(z),
    "mask": lambda net, z: (z < 0.1).to(z.dtype) * z.flip(1),
    "hard shrinkage": lambda net, z: F.hardshrink(z, 0.3),
    "threshold": lambda net, z: F.threshold(z, 0.1, -2.0),
    "round": lambda net, z: torch.round(3 * z) / 3,
    "floor": lambda net, z: torch.floor(3 * z),
    "one hot": lambda net, z: F.one_hot(z.argmax(-1), z.shape[-1]).to(z.dtype),
    "experts": experts,
}


def network(name: str, seed: int) -> nn.Module:
    """A ReLU layer, the activation, a ReLU layer and a second activation that jumps."""
    torch.manual_seed(seed)
    last = Coder(ACTS["JumpReLU"], m=9)
    return nn.Sequential(nn.Linear(5, 6), nn.ReLU(), Coder(ACTS[name]), nn.ReLU(), last, nn.Linear(6, 3)).double()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # inside torch.func
@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("name", ACTS)
def test_regions_jumps_and_labels_are_those_of_the_module(
    name: str, parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if parts:  # 16 vertices at a time
        monkeypatch.setattr(budget, "_PREFERRED_ROWS", 1)
        monkeypatch.setitem(budget.ON_LINES, "cpu", 1)
    net, ends = network(name, 0), 2 * torch.randn(2, 5, generator=torch.Generator().manual_seed(1)).double()
    line = rs.Segment(*ends)
    part = rs.linear_regions(net, line, jumps=True)
    part.check()
    t = torch.linspace(0, 1, 50_001, dtype=torch.float64)[:, None]
    program = part.program
    assert program is not None
    pieces = patterns(program, line.embed(t))
    assert len(part) >= 1 + int((pieces[1:] != pieces[:-1]).any(1).sum())
    with torch.no_grad():
        middle = line.embed(part.interior)
        values, slopes = torch.func.jvp(net, (middle,), (line.basis.expand_as(middle).contiguous(),))
    torch.testing.assert_close(part.maps.slope[:, 0], slopes, atol=1e-9, rtol=1e-7)
    torch.testing.assert_close(part.maps.constant + part.interior * part.maps.slope[:, 0], values)
    for wall in part.walls.inner.tolist():  # the jump, from the module on both sides of the wall
        place = part.vertices[part.walls.vertices[wall]]
        sides = net(line.embed(torch.stack([place - 1e-9, place + 1e-9]))).detach()
        assert float((sides[1] - sides[0]).norm()) == pytest.approx(float(part.jumps[wall]), abs=1e-6)
    dec = rs.decision_regions(net, line, jumps=True)
    labels = net(line.embed(dec.partition.interior)).argmax(1)
    assert labels.tolist() == dec.piece_labels.tolist()
    assert dec.count == 1 + int((labels[1:] != labels[:-1]).sum())


def region_at(part: rs.Partition, points: Tensor) -> list[int]:
    """The region of each point (n, 2) of a plane, by the sides of its polygon."""
    regions = torch.full((len(points),), -1)
    for i in range(len(part)):
        corners = part.region(i)
        sides, offset = corners.roll(-1, 0) - corners, points[:, None] - corners
        turns = sides[:, 0] * offset[..., 1] - sides[:, 1] * offset[..., 0]
        regions[(turns >= 0).all(1)] = i
    return regions.tolist()


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("name", ACTS)
def test_planes_have_the_regions_and_jumps_of_the_lines_in_them(
    name: str, parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if parts:  # 16 vertices at a time
        monkeypatch.setattr(budget, "_PREFERRED_ROWS", 1)
        monkeypatch.setitem(budget._PREFERRED_BYTES, "cpu", 1)
    net, generator = network(name, 1), torch.Generator().manual_seed(2)
    plane = rs.Simplex(2 * torch.randn(3, 5, generator=generator).double())
    part, dec = rs.linear_regions(net, plane, jumps=True), rs.decision_regions(net, plane, jumps=True)
    part.check()
    assert part.n_jumps > 0 or name == "experts"
    ends = part.vertices[part.walls.vertices.reshape(-1, 2)]
    lengths = (ends[:, 1] - ends[:, 0]).norm(dim=1)
    for i in range(len(part)):  # the walls of a region go around it
        around = lengths[(part.walls.regions == i).any(1)].sum()
        assert float(around) == pytest.approx(float((part.region(i).roll(-1, 0) - part.region(i)).norm(dim=1).sum()))
    jump_between = {
        frozenset(pair): jump
        for pair, jump in zip(part.neighbours.tolist(), part.jumps[part.walls.inner].tolist(), strict=True)
    }
    for _ in range(4):
        weights = torch.rand(2, 3, generator=generator, dtype=torch.float64)
        coords = (weights / weights.sum(1, keepdim=True))[:, 1:]
        line = rs.linear_regions(net, rs.Segment(*plane.embed(coords)), jumps=True)
        order = line.interior[:, 0].argsort()
        passed = region_at(part, coords[0] + line.interior[order] * (coords[1] - coords[0]))
        assert -1 not in passed
        assert len(set(passed)) == len(passed)
        places = line.vertices[line.walls.vertices[line.walls.inner], 0]
        jumps = line.jumps[line.walls.inner][places.argsort()]
        for pair, jump in zip(itertools.pairwise(passed), jumps.tolist(), strict=True):
            assert jump <= jump_between[frozenset(pair)] + 1e-9
    labels = net(plane.embed(dec.partition.interior)).argmax(1)
    assert labels.tolist() == dec.piece_labels.tolist()


def test_on_a_plane_jumps_are_the_largest_of_each_wall() -> None:
    """sign(x) y jumps by 2 |y| along x = 0; behind a jump, both sides are cut at other places."""
    part = rs.linear_regions(Function(lambda x: torch.where(x[:, :1] > 0, x[:, 1:], -x[:, 1:])), SQUARE, jumps=True)
    assert (part.n_linear_regions, part.n_jumps, float(part.jumps.max())) == (2, 1, pytest.approx(2))
    assert len(part.vertices) == 8
    steps = rs.linear_regions(Function(lambda x: torch.relu(x[:, 1:] - torch.sign(x[:, :1]) / 2)), SQUARE, jumps=True)
    assert steps.n_linear_regions == 3  # two ramps, and zero below both
    lines = torch.tensor([[1.0, 0, 1, 1], [0, 1, 1, -1]], dtype=torch.float64)
    star = rs.linear_regions(Function(lambda x: torch.sign(x.double() @ lines)), SQUARE, jumps=True)
    assert (len(star), star.n_linear_regions, star.n_jumps) == (8, 8, 8)  # the lines meet in one point
    grid = rs.linear_regions(Function(lambda x: torch.round(5 * x)), SQUARE, jumps=True)
    assert (len(grid), grid.n_jumps) == (121, 220)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_k_largest_lead_where_they_are_largest(k: int) -> None:
    """Sets of k by brute force, on a fine grid; each has one region, and its neighbours differ in one member."""
    torch.manual_seed(k)
    encode = nn.Linear(2, 12).double()

    class Keep(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            z = encode(x)
            top = z.topk(k)
            return torch.zeros_like(z).scatter(-1, top.indices, top.values)

    part = rs.linear_regions(Keep(), SQUARE, jumps=True)
    part.check()
    side = torch.linspace(-1, 1, 301, dtype=torch.float64)
    sets = {tuple(sorted(row)) for row in encode(torch.cartesian_prod(side, side)).topk(k).indices.tolist()}
    kept = [tuple(sorted(row)) for row in encode(part.interior).topk(k).indices.tolist()]
    assert len(set(kept)) == len(kept) == len(part)
    assert sets <= set(kept)
    assert all(len({*kept[a]} - {*kept[b]}) == 1 for a, b in part.neighbours.tolist())
    assert part.n_jumps == len(part.neighbours)


class Mixture(nn.Module):
    """A layer of experts that a gate chooses for each input, beside a skip, in the ways in which it is written."""

    def __init__(self, combine: Callable[[Mixture, Tensor, list[Tensor]], Any], n: int = 5) -> None:
        super().__init__()
        self.gate, self.head = nn.Linear(4, n), nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4)) for _ in range(n))
        self.combine = combine

    def forward(self, x: Tensor) -> Any:
        return self.head(x + self.combine(self, self.gate(x), [expert(x) for expert in self.experts]))


def chosen_by(masks: Callable[[int, Tensor], Tensor], gates: Tensor, results: list[Tensor]) -> Tensor:
    return sum((masks(i, gates) * result for i, result in enumerate(results)), torch.zeros_like(results[0]))


MIXTURES: dict[str, Callable[[Mixture, Tensor, list[Tensor]], Any]] = {
    "best in a loop": lambda net, gates, results: chosen_by(
        lambda i, z: (z.argmax(-1) == i).unsqueeze(-1).to(z), gates, results
    ),
    "where": lambda net, gates, results: functools.reduce(
        lambda total, i: torch.where((gates.argmax(-1) == i)[:, None], results[i], total), range(5), 0 * results[0]
    ),
    "one hot": lambda net, gates, results: torch.einsum(
        "bi,bid->bd", F.one_hot(gates.argmax(-1), 5).to(gates), torch.stack(results, 1)
    ),
    "product of matrices": lambda net, gates, results: (
        F.one_hot(gates.argmax(-1), 5).to(gates)[:, None] @ torch.stack(results, 1)
    ).squeeze(1),
    "two best": lambda net, gates, results: (
        torch.zeros_like(gates).scatter(-1, gates.topk(2).indices, 0.5).unsqueeze(-1) * torch.stack(results, 1)
    ).sum(1),
    "among the best": lambda net, gates, results: chosen_by(
        lambda i, z: (z.topk(3, dim=1)[1] == i).any(dim=-1, keepdim=True), gates, results
    ),
    "large gates": lambda net, gates, results: chosen_by(
        lambda i, z: ((z[:, i] > 0) & (z[:, i] < 0.5))[:, None], gates, results
    ),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_experts_are_read_as_they_are_written(name: str) -> None:
    torch.manual_seed(3)
    net, directions = Mixture(MIXTURES[name]).double(), torch.randn(2, 4).double()
    for slice in (rs.Segment(-3 * directions[0], 3 * directions[0]), rs.Box(torch.zeros(4), directions, 3.0)):
        part = rs.linear_regions(net, slice, jumps=True)
        part.check()
        assert part.n_jumps > 0
        with torch.no_grad():
            values = net(slice.embed(part.interior))
        maps = part.maps
        torch.testing.assert_close(maps.constant + (part.interior[:, None] @ maps.slope)[:, 0], values)
        for i, point in enumerate(slice.embed(part.interior[:20])):
            jacobian = torch.autograd.functional.jacobian(lambda x: net(x[None])[0], point)
            torch.testing.assert_close(maps.slope[i], slice.basis @ jacobian.T, atol=1e-9, rtol=1e-6)
    with pytest.raises(rs.NotPiecewiseAffine, match="jumps"):
        rs.linear_regions(net, slice)


def test_counts_are_those_of_the_formula() -> None:
    """x [x > 1] has two regions and one jump of 1; at the wall itself it is 0."""
    net = Function(lambda x: x * (x > 1))
    part = rs.linear_regions(net, LINE, jumps=True)
    assert (part.n_activation_regions, part.n_linear_regions, part.n_jumps) == (2, 2, 1)
    assert float(part.jumps.max()) == pytest.approx(1)
    assert part.outputs.flatten().tolist() == pytest.approx([0, 0, 1, 3])
    steps = rs.linear_regions(Function(torch.round), LINE, jumps=True)  # -2, -1, 0, 1, 2, 3
    assert (len(steps), steps.n_linear_regions, steps.n_jumps) == (6, 6, 5)
    assert steps.extremes(0).max == 3
    continuous = rs.linear_regions(Function(lambda x: torch.relu(x)), LINE, jumps=True)
    assert (continuous.n_jumps, continuous.lipschitz().value) == (0, 1)


@pytest.mark.parametrize("name", ACTS)
def test_on_a_wall_the_value_is_the_one_that_torch_computes(name: str) -> None:
    coder = Coder(ACTS[name], m=6).double()
    coder.encode.weight.data, coder.encode.bias.data = torch.eye(6).double(), torch.zeros(6).double()
    coder.level.data.fill_(0.25)
    x = torch.tensor([[0.25, 0.0, 0.5, 0.3, -0.3, 0.1], [0.5, 0.5, 0.5, 0.5, -0.5, 1 / 6]], dtype=torch.float64)
    assert torch.equal(rs.trace(coder, (6,), jumps=True)(x), coder(x).detach())


def test_what_needs_a_continuous_network_says_so() -> None:
    net = Function(torch.sign)
    with pytest.raises(rs.NotPiecewiseAffine, match=r"it jumps.*jumps=True"):
        rs.linear_regions(Function(torch.round), LINE)
    part, program = rs.linear_regions(net, LINE, jumps=True), rs.trace(net, (1,), jumps=True)
    for ask in (
        part.lipschitz, part.certify, lambda: exact.stream_regions(program, LINE),
        lambda: rs.regions_at(program, torch.ones(1, 1)), lambda: rs.integrated_gradients(program, torch.ones(1, 1)),
    ):  # fmt: skip
        with pytest.raises(rs.InputError, match=r"Expected a continuous network for .* got one that jumps at 'sign'"):
            ask()
    for slice in (rs.Box.between(-1.0, 1.0, (3,)), rs.Polyline([[0.0, 0], [1, 1], [2, 0]])):
        with pytest.raises(rs.InputError, match="jumps"):
            rs.linear_regions(net, slice, jumps=True)
    with pytest.raises(rs.InputError, match="one that jumps, whose pieces share no vertices"):
        rs.decision_regions(net, SQUARE, jumps=True).topology()


def test_figures_and_files_take_a_network_that_jumps(tmp_path: Any) -> None:
    net, line = network("JumpReLU", 0), rs.Segment(torch.zeros(5), 2 * torch.ones(5))
    part, dec = rs.linear_regions(net, line, jumps=True), rs.decision_regions(net, line, jumps=True)
    graph = plot.function_graph(part, ax=Figure().add_subplot())
    assert len(graph.lines[0].get_xdata()) == len(part.vertices)
    plot.regions_figure(part)
    plot.decision_figure(dec)
    back = rs.Partition.load(part.save(tmp_path / "part"), program=part.program)
    assert (back.n_jumps, back.n_linear_regions) == (part.n_jumps, part.n_linear_regions)
    back.check()
