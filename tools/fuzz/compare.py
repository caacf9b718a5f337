"""One network, counted by regionscope and by the truth."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.autograd import forward_ad

import regionscope as rs
from fuzz.margins import smallest_jump, smallest_sign
from fuzz.networks import Network, network
from fuzz.polytopes import Point, corners
from fuzz.truth import Place, Truth, truth_of

DTYPES = {"float64": torch.float64, "float32": torch.float32}
# Ratios below these may be taken for zero: those of a sign, and those of a change of slope.
SIGN, JUMP = 1e-12, 1e-9
DERIVATIVES = 21  # one network in so many; no multiple of the number of families, so that all have their turn
APART = 1e-6  # how far a vertex may lie from its true place, in slice coordinates


class TruthFault(Exception):
    """The truth and the torch module do not describe the same network."""


@dataclass(frozen=True)
class Difference:
    """A count in which regionscope and the truth differ. close: the smallest nonzero number behind a sign or a
    comparison, relative to the size of the numbers at hand, is below what float64 can be asked to decide, and the
    result says so (``n_snapped``); or the weights are steep, and regionscope refuses to give a number.

    Long dot products and scaled layers leave rounding no such room: there only a result that warns or is refused is
    close. The warning itself ("warned", with the number of undecided walls) and ``CheckFailed`` ("refused") are
    listed too, also beside right counts.
    """

    what: str
    found: object
    expected: object
    close: bool


class Compared(Protocol):
    """What the report says of a network."""

    @property
    def seed(self) -> int: ...
    @property
    def family(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def weights_kind(self) -> str: ...


@dataclass(frozen=True)
class Outcome:
    """The comparison of one network. seconds: of processor time."""

    network: Compared
    differences: list[Difference]
    seconds: float


def outcome(seed: int) -> Outcome:
    """Count the regions of the network of a seed twice and compare."""
    start = time.process_time()
    net = network(seed)
    truth = truth_of(net.layers, net.weights, net.place)
    module = net.module()
    try:
        verify(truth, net, module)
        if net.strict:
            return Outcome(net, strict_differences(module, net, truth), time.process_time() - start)
        different = compare(module, net, truth)
    except TruthFault as fault:  # a finding like any other; a long run goes on
        different = [("truth", str(fault), "no fault")]
    near = bool(different) and _near(module, net, truth, *different[0][:2])
    differences = [
        Difference(what, found, expected, what != "truth" and (near or _small_jump(truth, what)))
        for what, found, expected in different
    ]
    return Outcome(net, differences, time.process_time() - start)


def strict_differences(module: nn.Module, net: Network, truth: Truth) -> list[Difference]:
    """Where regionscope differs from the truth or from its certificate; close if the result warns or is refused."""
    program, slice = rs.trace(module, net.place.origin.shape, dtype=DTYPES[net.dtype]), slice_of(net.place)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            results = rs.linear_regions(program, slice), rs.decision_regions(program, slice)
            different = differences_of(*results, truth, net.dim)
            if net.family == "operators":  # whose comparisons the truth makes in another order, or not at all
                different = [
                    each for each in different if each[0] not in ("activation regions", "by layer", "vertices")
                ]
            undecided = sum(result.n_undecided for result in results)
            for result in results:
                result.readings()
            if net.family == "scaled" or (net.family == "operators" and net.seed % DERIVATIVES == 0):
                refuted = [certificate for result in results if (certificate := result.certify()).refuted]
                different += [("certificate", str(certificate), "certified") for certificate in refuted]
        except rs.CheckFailed as error:
            return [Difference("refused", str(error), "a result", close=True)]
        except Exception as error:  # noqa: BLE001  an error of any other kind is a finding here
            return [Difference("raised", f"{type(error).__name__}: {error}", "no error", close=False)]
    warned = [Difference("warned", undecided, 0, close=True)] if caught else []
    return warned + [Difference(*each, close=bool(warned)) for each in different]


def _near(module: nn.Module, net: Network, truth: Truth, what: str, found: object) -> bool:
    """Whether rounding may decide, and the engine says so: by an error or in its results."""
    if net.weights_kind == "steep" and what == "raised" and str(found).startswith("CheckFailed"):
        return True
    return smallest_sign(truth) < SIGN and (what == "raised" or _reported(module, net))


def _reported(module: nn.Module, net: Network) -> bool:
    """Whether the results say that rounding hides signs; a wrong count must not be silent."""
    program, slice = rs.trace(module, net.place.origin.shape, dtype=DTYPES[net.dtype]), slice_of(net.place)
    parts = (rs.linear_regions(program, slice), rs.decision_regions(program, slice).partition)
    return any(part.n_snapped for part in parts)


def _small_jump(truth: Truth, what: str) -> bool:
    return what == "linear regions" and smallest_jump(truth) < JUMP


def slice_of(place: Place) -> rs.Slice:
    """The slice for regionscope."""
    origin, basis = torch.from_numpy(place.origin), torch.from_numpy(place.basis)
    if place.kind == "box":
        return rs.Box(origin, basis, list(place.radius))
    if place.kind == "segment":
        return rs.Segment(origin, origin + basis[0])
    return rs.Simplex(torch.cat([origin[None], origin + basis]))


def compare(module: nn.Module, net: Network, truth: Truth) -> list[tuple[str, object, object]]:
    """Everything in which regionscope differs from the truth: (what, found, expected)."""
    slice = slice_of(net.place)
    try:
        program = rs.trace(module, net.place.origin.shape, dtype=DTYPES[net.dtype])
        part, decision = rs.linear_regions(program, slice), rs.decision_regions(program, slice)
        return differences_of(part, decision, truth, net.dim)
    except Exception as error:  # noqa: BLE001  an error of any kind is a finding here
        return [("raised", f"{type(error).__name__}: {error}", "no error")]


def differences_of(
    part: rs.Partition, decision: rs.DecisionRegions, truth: Truth, dim: int
) -> list[tuple[str, object, object]]:
    """Where two results on a slice of dimension ``dim`` differ from the truth."""
    pairs: list[tuple[str, object, object]] = [
        ("activation regions", part.n_activation_regions, truth.by_layer[-1] if truth.by_layer else 1),
        ("by layer", list(part.by_layer.values()), truth.by_layer),
        ("linear regions", part.n_linear_regions, truth.linear),
        ("decision regions", decision.count, len(truth.labels)),
        ("labels", sorted(decision.labels.tolist()), truth.labels),
        ("vertices", len(part.vertices), len(truth.vertices)),
    ]
    if dim == 1:
        pairs.append(("boundary", decision.boundary.numel(), len(truth.boundary)))
    wrong = [(what, found, expected) for what, found, expected in pairs if found != expected]
    if not wrong and dim == 1:
        wrong = misplaced("vertices", part.vertices, truth.vertices, APART)
        wrong += misplaced("boundary", decision.boundary, truth.boundary, APART)
    return wrong


def misplaced(what: str, found: torch.Tensor, exact: list[Point], within: float) -> list[tuple[str, object, object]]:
    """Whether points on a segment lie where they should."""
    at, want = np.sort(found.flatten().numpy()), np.sort([x / w for x, w in exact])
    distance = float(np.abs(at - want).max(initial=0.0))
    return [(f"{what} misplaced", distance, 0)] if distance > within else []


def verify(truth: Truth, net: Network, module: nn.Module) -> None:
    """Compare each exact map with the module's own value in the middle of its cell; for some networks also with
    forward-mode derivatives, which are slow.

    Raises TruthFault. The truth reads the layers by itself, and this is what ties it to torch.
    """
    points = [np.array([[x / p[-1] for x in p[:-1]] for p in corners(cell.polytope)]) for cell in truth.cells]
    wide = [i for i, each in enumerate(points) if _width(each) > 1e-6]  # the middle is safely inside
    if not wide:
        return
    below = 2 ** truth.program.exponents[-1]
    maps = [truth.cells[i].tensors[-1].tolist() for i in wide]
    exact = np.array([[[number / below for number in row] for row in rows] for rows in maps])  # (r, c, k + 1)
    coords = np.array([points[i].mean(0) for i in wide])
    inputs = torch.from_numpy(net.place.origin + np.tensordot(coords, net.place.basis, 1))
    expected = (exact[:, :, :-1] * coords[:, None]).sum(2) + exact[:, :, -1]
    scale = 1e-9 * (1 + np.abs(exact).max())
    with torch.no_grad():
        if np.abs(module(inputs).numpy() - expected).max() > scale:
            raise TruthFault(f"Seed {net.seed}: the exact maps differ from the module's values.")
    known = net.family != "operators"  # torch has no forward-mode derivative of some
    if (
        known
        and net.seed % DERIVATIVES == 0
        and np.abs(_derivatives(module, inputs, net.place) - exact[:, :, :-1]).max() > scale
    ):
        raise TruthFault(f"Seed {net.seed}: the exact slopes differ from the module's derivatives.")


def _width(points: NDArray[np.float64]) -> float:
    """How far corners (m, k) spread in the direction in which a cell is thinnest, whatever that direction is."""
    return float(np.linalg.svd(points - points.mean(0), compute_uv=False)[-1])


def _derivatives(module: nn.Module, inputs: torch.Tensor, place: Place) -> NDArray[np.float64]:
    """Forward-mode derivatives along the coordinates of the slice, (r, c, k)."""
    columns = []
    for direction in torch.from_numpy(place.basis):
        with warnings.catch_warnings(), torch.no_grad(), forward_ad.dual_level():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch compiles some rules with torch.jit
            values, slopes = forward_ad.unpack_dual(
                module(forward_ad.make_dual(inputs, direction.expand_as(inputs).clone()))
            )
            columns.append(torch.zeros_like(values) if slopes is None else slopes)
    return torch.stack(columns, dim=-1).numpy()
