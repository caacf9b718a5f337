"""Operators that fold, or move entries, each on slices where its entries tie: against the slow twin and the module."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regionscope as rs
from exact.test_exact import assert_equal_to_reference
from network.architectures import Lambda
from twins.reference import reference_regions

Function = Callable[[Tensor], Tensor]
SOURCES, TARGETS = torch.tensor([0, 1, 1, 2, 2]), torch.tensor([1, 0, 2, 2, 1])  # the edges of a graph of 3 nodes
LEVELS = torch.tensor([0.5, 0.25, 0.0, 1.0], dtype=torch.float64)
GRID = torch.tensor([[[[-0.5, 0.25], [0.75, -1.0]]]], dtype=torch.float64)


def _indices(x: Tensor) -> Tensor:
    return TARGETS[None, :, None].expand(x.shape[0], -1, x.shape[2])


def _messages(x: Tensor, reduce: str) -> Tensor:
    """What the nodes (v, 3, features) of a graph receive."""
    start = torch.zeros_like(x)
    return start.scatter_reduce(1, _indices(x), x[:, SOURCES] * 2 - 1, reduce, include_self=False)


def _relu6(x: Tensor) -> Tensor:
    low = x.masked_fill(x < 0, 0.0)
    return low.masked_fill(low > 0.5, 0.5)


def _assigned(x: Tensor) -> Tensor:
    h = 2 * x
    h[h < 0.5] = 0.5
    return h


def _sampled(x: Tensor) -> Tensor:
    return F.grid_sample(x.relu(), GRID.expand(x.shape[0], -1, -1, -1), align_corners=True)


ROWS: dict[str, tuple[Function, tuple[int, ...]]] = {
    "where": (lambda x: torch.where(x > 0, x, 0.125 * x), (3,)),
    "where of two values": (lambda x: torch.where(x[:, :2] < x[:, 1:], x[:, 1:], x[:, :2]), (3,)),
    "where, other threshold": (lambda x: torch.where(x >= LEVELS, 2 * x, x + LEVELS), (4,)),
    "where in where": (lambda x: torch.where(x > 1, 1.0 + 0 * x, torch.where(x < -1, -1.0 + 0 * x, x)), (3,)),
    "where of another value": (lambda x: torch.where(1 - 2 * x > 0, x - 0.5, 0 * x), (3,)),
    "product with a mask": (lambda x: x * (x > 0), (3,)),
    "product with slopes": (lambda x: x * (0.25 + 0.5 * (~(x <= 0)).double()), (3,)),
    "product with a band": (lambda x: x * ((x > 0) & (x < 1)) + (x >= 1).to(x), (3,)),
    "hat": (lambda x: torch.where((x > -1) & (x < 1), 1 - x.abs(), 0.0), (3,)),
    "outside of a band": (lambda x: torch.where((x < -LEVELS) | ~(x <= LEVELS), x.abs() - LEVELS, 0.0), (4,)),
    "one of two comparisons": (lambda x: torch.where((x > -1) ^ (x > 1), 1 - x.abs(), 0 * x), (3,)),
    "three pieces": (lambda x: (x > 0) * x * (x <= 1) + (x > 1) * (2 - x) * (x < 2), (3,)),
    "soft threshold": (lambda x: torch.sign(x) * F.relu(x.abs() - LEVELS), (4,)),
    "masked fill": (_relu6, (3,)),
    "masked assignment": (_assigned, (3,)),
    "rectified difference": (lambda x: (x[:, :2] - x[:, 1:]) * (x[:, :2] > x[:, 1:]), (3,)),
    "sort": (lambda x: x.sort(1).values, (4,)),
    "no entries": (lambda x: torch.cat([2 * x[:, :0], x.relu(), x.topk(0, dim=1)[0]], 1), (3,)) ,
    "sums of none": (lambda x: torch.cat([x.relu()[:, :0].sum(1, keepdim=True), x.relu()], 1), (3,)),
    "sort of groups": (lambda x: x.view(-1, 2, 3).sort(-1, descending=True)[0].flatten(1), (6,)),
    "topk": (lambda x: torch.topk(x, 2, dim=1)[0], (5,)),
    "smallest": (lambda x: x.topk(2, -1, largest=False).values, (3, 2)),
    "median": (lambda x: x.median(1, keepdim=True).values, (4,)),
    "kthvalue": (lambda x: x.kthvalue(2, dim=1, keepdim=True)[0], (4,)),
    "cummax": (lambda x: x.cummax(1)[0], (4,)),
    "cummin": (lambda x: torch.cummin(x, 1).values, (3, 2)),
    "aminmax": (lambda x: torch.stack([*torch.aminmax(x, dim=1)], 1), (4,)),
    "graph, sum": (lambda x: torch.zeros_like(x).scatter_add(1, _indices(x), x.relu()[:, SOURCES]), (3, 2)),
    "graph, index_add": (lambda x: x.index_add(1, TARGETS, x.relu()[:, SOURCES], alpha=0.5), (3, 2)),
    "graph, mean": (lambda x: _messages(x.relu(), "mean"), (3, 2)),
    "graph, amax": (lambda x: _messages(x, "amax"), (3, 2)),
    "graph, amin": (lambda x: _messages(x, "amin"), (3, 2)),
    "gather": (lambda x: x.relu().gather(1, _indices(x)), (3, 2)),
    "norm, 1": (lambda x: x.norm(p=1, dim=1, keepdim=True), (3,)),
    "norm, infinity": (lambda x: torch.norm(x, math.inf, -1, True), (3,)),
    "vector norm, 1": (lambda x: torch.linalg.vector_norm(x, 1, dim=(1, 2))[:, None], (2, 2)),
    "vector norm, infinity": (lambda x: torch.linalg.vector_norm(x, math.inf, dim=1, keepdim=True), (3,)),
    "cdist": (lambda x: torch.cdist(x, LEVELS.reshape(2, 2), p=1.0), (2, 2)),
    "distance": (lambda x: F.pairwise_distance(x, LEVELS, p=1.0, keepdim=True), (4,)),
    "l1 loss": (lambda x: F.l1_loss(x, LEVELS.expand_as(x), reduction="none"), (4,)),
    "lerp": (lambda x: torch.lerp(x, x.relu(), LEVELS), (4,)),
    "addcmul": (lambda x: torch.addcmul(x, x.relu(), LEVELS, value=0.5), (4,)),
    "diff": (lambda x: x.relu().diff(2), (4,)),
    "fold": (lambda x: F.fold(x.relu(), (3, 3), 2), (4, 4)),
    "nan_to_num": (lambda x: torch.nan_to_num(x).relu(), (3,)),
    "grid_sample": (_sampled, (1, 3, 3)),
    "rfft": (lambda x: torch.cat([(f := torch.fft.rfft(x.relu())).real, f.imag], 1), (4,)),
    "stft": (lambda x: torch.view_as_real(torch.stft(x.relu(), 4, window=LEVELS, return_complex=True)), (6,)),
}  # fmt: skip
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "RNN": (lambda: nn.RNN(2, 2, nonlinearity="relu", batch_first=True), (2, 2)),
    "RNN of two layers and directions": (lambda: nn.RNN(1, 2, 2, "relu", batch_first=True, bidirectional=True), (2, 1)),
    "RNN, batch second": (lambda: nn.RNN(2, 2, nonlinearity="relu", bias=False), (2, 2)),
    "RNNCell": (lambda: nn.RNNCell(3, 2, nonlinearity="relu"), (3,)),
}


@cache
def network(name: str) -> nn.Module:
    if name in ROWS:
        return Lambda(lambda self, x: ROWS[name][0](x).flatten(1))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = LAYERS[name][0]().double()
    if isinstance(layer, nn.RNN) and not layer.batch_first:
        return Lambda(lambda self, x: self.layer(x.transpose(0, 1))[0].transpose(0, 1).flatten(1), layer=layer)
    return Lambda(lambda self, x: (y if torch.is_tensor(y := self.layer(x)) else y[0]).flatten(1), layer=layer)


def whole(*shape: int, seed: int) -> Tensor:
    """Small whole numbers, of which many are equal."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(-1, 2, shape, generator=draw).double()


def slices(shape: tuple[int, ...]) -> dict[str, rs.Slice]:
    """Ties at the origin, entries that tie along a whole segment, and no ties."""
    generator = torch.Generator().manual_seed(3)
    n = math.prod(shape)
    tied = torch.arange(n).double().div(2).floor().reshape(shape)
    directions = torch.stack([(torch.arange(n) + i) % 3 - 1.0 for i in (0, 1)]).double().reshape(2, *shape)
    return {
        "ties in a point": rs.Box(torch.zeros(shape), directions, 2.0),
        "ties on a line": rs.Segment(tied - 1, 1 - tied + whole(*shape, seed=1)),
        "ties everywhere": rs.Segment(-torch.ones(shape), 2 * torch.ones(shape)),
        "generic": rs.Box(torch.zeros(shape), torch.randn(2, *shape, generator=generator, dtype=torch.float64), 1.0),
    }


SHAPES = {name: row[1] for name, row in (ROWS | LAYERS).items()}


@pytest.mark.parametrize("place", ["ties in a point", "ties on a line", "ties everywhere", "generic"])
@pytest.mark.parametrize("name", SHAPES)
def test_operators(name: str, place: str) -> None:
    """Counts are those of the slow twin, and each map is the module itself inside its region."""
    module, shape = network(name), SHAPES[name]
    slice, program = slices(shape)[place], rs.trace(module, shape)
    part, _ = assert_equal_to_reference(program, slice, *reference_regions(program, slice))
    weights = torch.rand(5, len(part.corners), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    owner = torch.repeat_interleave(part.offsets.diff())
    with torch.no_grad():
        for weight in weights:
            share = weight / torch.zeros(len(part)).double().index_add_(0, owner, weight)[owner]
            coords = torch.zeros(len(part), part.dim).double()
            coords.index_add_(0, owner, share[:, None] * part.vertices[part.corners])
            values = part.maps.constant + (coords[:, None] @ part.maps.slope)[:, 0]
            torch.testing.assert_close(values, module(slice.embed(coords)), rtol=1e-8, atol=1e-8)


# Heads that keep the order of the outputs: labels do not depend on them.

HEADS: dict[str, Function] = {
    "softmax": lambda y: y.softmax(-1),
    "log-softmax": lambda y: F.log_softmax(y, dim=1),
    "sigmoid": torch.sigmoid,
    "temperature": lambda y: torch.softmax(y / 0.25, 1),
    "soft cap": lambda y: 30 * torch.tanh(y / 30),
    "logarithm": lambda y: torch.log(y.softmax(1) + 1e-9),
    "reshaped": lambda y: y.exp().view(-1, 1, 3)[:, 0] * 2 + 1,
}
ONE: dict[str, Function] = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "shifted": lambda y: y.sigmoid() - 0.5}
ADVISED = [HEADS["softmax"], HEADS["log-softmax"], HEADS["temperature"], torch.sigmoid]
NOT_HEADS: dict[str, tuple[Function, int]] = {
    "reversed": (lambda y: 1 - y.sigmoid(), 3),
    "reciprocal": (lambda y: 1 / y.exp(), 3),
    "negative factor": (lambda y: y.tanh() * -2, 3),
    "gate": (lambda y: y.softmax(1) * y, 3),
    "other shift": (lambda y: y.tanh() + 0.25, 1),
    "always positive": (torch.exp, 1),
    "constant": (lambda y: y.softmax(1), 1),
    "one of two": (lambda y: y.softmax(1)[:, 1:], 2),
}
BOX = rs.Box([0.0, 0.0], torch.eye(2), 3.0)


def _with_head(head: Function, outputs: int) -> tuple[nn.Module, nn.Module]:
    """A network, and the same with a head behind it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, outputs))
    return net, Lambda(lambda self, x: head(self.net(x)), net=net)


@pytest.mark.parametrize(("head", "outputs"), [(f, 3) for f in HEADS.values()] + [(f, 1) for f in ONE.values()])
def test_labels_do_not_depend_on_a_head(head: Function, outputs: int, tmp_path: Path) -> None:
    net, model = _with_head(head, outputs)
    wanted, decided = rs.decision_regions(net, BOX), rs.decision_regions(model, BOX)
    assert decided.labels.tolist() == wanted.labels.tolist()
    assert torch.equal(decided.sizes, wanted.sizes)
    assert "was taken off" in decided.note
    assert not wanted.note
    assert rs.DecisionRegions.load(decided.save(tmp_path / "regions.npz")).note == decided.note
    line = rs.Segment([-3.0, -2.0], [3.0, 2.5])
    assert rs.flips(model, line).coords.tolist() == rs.flips(net, line).coords.tolist()
    assert rs.flips(model, line).note == decided.note
    with pytest.raises(rs.NotPiecewiseAffine, match="use the logits before it" if head in ADVISED else "not piecewise"):
        rs.linear_regions(model, BOX)


@pytest.mark.parametrize("name", NOT_HEADS)
def test_a_head_that_changes_labels_is_refused(name: str) -> None:
    with pytest.raises(rs.NotPiecewiseAffine):
        rs.decision_regions(_with_head(*NOT_HEADS[name])[1], BOX)


def test_order_constraints_are_verified_before_a_head(tmp_path: Path) -> None:
    def verdict(model: nn.Module, text: str) -> rs.Verification:
        bounds = "".join(f"(assert (>= X_{i} -1.0)) (assert (<= X_{i} 1.0))" for i in (0, 1))
        names = "".join(f"(declare-const X_{i} Real)" for i in (0, 1)) + "".join(
            f"(declare-const Y_{i} Real)" for i in range(3)
        )
        path = tmp_path / "property.vnnlib"
        path.write_text(f"{names}{bounds}(assert {text})")
        return rs.verify(model, rs.read_vnnlib(path))

    net, model = _with_head(lambda y: y.softmax(1), 3)
    for text in ("(<= Y_0 Y_1)", "(<= Y_2 Y_1)", "(<= Y_1 Y_0)"):
        assert verdict(model, text).verdict == verdict(net, text).verdict
        assert verdict(model, text).reason.endswith("was taken off.")
    with pytest.raises(rs.NotPiecewiseAffine, match="softmax"):
        verdict(model, "(<= Y_0 0.1)")
