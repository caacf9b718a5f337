"""One network, counted by regionscope and by the truth."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import torch
from fuzz.margins import closest
from fuzz.networks import Network, network
from fuzz.polytopes import Point, corners
from fuzz.truth import Place, Truth, truth_of
from torch import nn

import regionscope as rs

DTYPES = {"float64": torch.float64, "float32": torch.float32}
APART = {"float64": 1e-6, "float32": 1e-2}  # how far a vertex may lie from its true place, in slice coordinates


class TruthFault(Exception):
    """The truth and the torch module do not describe the same network."""


@dataclass(frozen=True)
class Difference:
    """A count in which regionscope and the truth differ. close: the smallest nonzero number behind a sign or a
    comparison, relative to the size of the numbers at hand, is below what ``dtype`` can be asked to decide.
    """

    what: str
    found: str
    expected: str
    close: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of one network in one dtype."""

    seed: int
    family: str
    dim: int
    weights_kind: str
    dtype: str
    regions: int
    differences: list[Difference] = field(default_factory=list)


def outcomes(seed: int) -> tuple[list[Outcome], float]:
    """Compare the network of a seed in every dtype that holds its weights; also the seconds this took."""
    start = time.perf_counter()
    net = network(seed)
    truth = truth_of(net.layers, net.weights, net.place)
    module = net.module()
    verify(truth, module, net.place)
    found = []
    for dtype in net.dtypes:
        differences = [
            Difference(what, repr(got), repr(want), closest(truth, what) < CLOSE[dtype])
            for what, got, want in compare(module, net, truth, dtype)
        ]
        found.append(Outcome(seed, net.family, net.dim, net.weights_kind, dtype, truth.by_layer[-1], differences))
    return found, time.perf_counter() - start


CLOSE = {"float64": 1e-9, "float32": 1e-4}


def piece_of(place: Place) -> rs.Slice:
    """The slice for regionscope."""
    origin, basis = torch.from_numpy(place.origin), torch.from_numpy(place.basis)
    if place.kind == "box":
        return rs.Box(origin, basis, list(place.radius))
    if place.kind == "segment":
        return rs.Segment(origin, origin + basis[0])
    return rs.Simplex(torch.cat([origin[None], origin + basis]))


def compare(module: nn.Module, net: Network, truth: Truth, dtype: str) -> list[tuple[str, object, object]]:
    """Everything in which regionscope differs from the truth: (what, found, expected)."""
    piece = piece_of(net.place)
    try:
        part = rs.linear_regions(module, piece, dtype=DTYPES[dtype])
        decision = rs.decision_regions(module, piece, dtype=DTYPES[dtype])
        pairs: list[tuple[str, object, object]] = [
            ("activation regions", part.n_activation_regions, truth.by_layer[-1]),
            ("by layer", list(part.by_layer.values()), truth.by_layer),
            ("linear regions", part.n_linear_regions, truth.linear),
            ("decision regions", decision.count, len(truth.labels)),
            ("labels", sorted(decision.labels.tolist()), truth.labels),
            ("vertices", len(part.vertices), len(truth.vertices)),
        ]
        if net.dim == 1:
            pairs.append(("boundary", decision.boundary.numel(), len(truth.boundary)))
        wrong = [(what, found, expected) for what, found, expected in pairs if found != expected]
        if not wrong and net.dim == 1:
            wrong = misplaced("vertices", part.vertices, truth.vertices, APART[dtype])
            wrong += misplaced("boundary", decision.boundary, truth.boundary, APART[dtype])
        return wrong
    except rs.RegionscopeError as error:
        return [("raised", f"{type(error).__name__}: {error}", "no error")]


def misplaced(what: str, found: torch.Tensor, exact: list[Point], within: float) -> list[tuple[str, object, object]]:
    """Whether points on a segment lie where they should."""
    at, want = np.sort(found.flatten().numpy()), np.sort([x / w for x, w in exact])
    distance = float(np.abs(at - want).max(initial=0.0))
    return [(f"{what} misplaced", distance, 0)] if distance > within else []


def verify(truth: Truth, module: nn.Module, place: Place) -> None:
    """Compare each exact map with the module's own value and forward-mode derivatives in the middle of its cell.

    Raises TruthFault. The truth reads the layers by itself, and this is what ties it to torch.
    """
    middles, maps = [], []
    for cell in truth.cells:
        points = np.array([[x / p[-1] for x in p[:-1]] for p in corners(cell.polytope)])
        if np.ptp(points, axis=0).min() > 1e-6:  # in thinner cells the middle is not safely inside
            middles.append(points.mean(0))
            maps.append(cell.tensors[-1].tolist())
    if not middles:
        return
    below = 2 ** truth.program.exponents[-1]
    exact = np.array([[[number / below for number in row] for row in rows] for rows in maps])  # (r, c, k + 1)
    coords = torch.from_numpy(np.array(middles))
    basis, origin = torch.from_numpy(place.basis), torch.from_numpy(place.origin)

    def along(coords: torch.Tensor) -> torch.Tensor:
        return module(origin + torch.tensordot(coords, basis, dims=1))

    scale = 1e-9 * (1 + np.abs(exact).max())
    for i in range(len(basis)):
        unit = torch.zeros_like(coords)
        unit[:, i] = 1
        with torch.no_grad():
            values, slopes = torch.func.jvp(along, (coords,), (unit,))
        expected = (exact[:, :, :-1] * coords.numpy()[:, None]).sum(2) + exact[:, :, -1]
        if np.abs(values.numpy() - expected).max() > scale or np.abs(slopes.numpy() - exact[:, :, i]).max() > scale:
            raise TruthFault("The exact maps differ from the module's values or derivatives.")
