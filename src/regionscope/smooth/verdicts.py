"""What affine forms prove about the labels of cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regionscope.geometry import Slice
from regionscope.smooth.cells import Cells
from regionscope.smooth.forms import Cluster, Form
from regionscope.smooth.network import SmoothNetwork, input_form
from regionscope.smooth.operators import AffineStep
from regionscope.tolerance import UNIT
from regionscope.types import BoolArray, FloatArray, IntArray

_RIVALS = 3  # outputs of a cell that are bounded backwards
_FAR = 1.0  # times the range of a difference: a wider bound decides nothing in halves of the cell either
_WIDER = 1e-5  # of the range of a difference: cuts are made so much further out, so that the check of a part succeeds


@dataclass(frozen=True, eq=False)
class Verdict:
    """What is known of b cells.

    possible: (b, c) labels that may occur. leader: (b,) the label at the center. rival: (b,) the possible label whose
        boundary with it is to be cut. far: (b,) whether the bound is so wide that the cell is cut into four. line: (b,
        1 + k), the difference of both outputs as a function w_0 + w x of the slice coordinates. radius: (b,) a bound of
        its error. level: (b,) the cell is cut where the difference is +-level.
    """

    possible: BoolArray
    leader: IntArray
    rival: IntArray
    far: BoolArray
    line: FloatArray
    radius: FloatArray
    level: FloatArray

    @staticmethod
    def joined(parts: Sequence[Verdict]) -> Verdict:
        """The verdicts of several clusters, one after another."""
        return Verdict(*(np.concatenate([vars(part)[field.name] for part in parts]) for field in fields(Verdict)))

    def of_parts(self, parent: IntArray, corners: FloatArray, possible: BoolArray) -> BoolArray:
        """Possible labels of parts of the cells, from those before, the cell (n,) and the corners (n, v, k) of each."""
        values = self.line[parent, None, 0] + np.einsum("nvk,nk->nv", corners, self.line[parent, 1:])
        radius = self.radius[parent]
        kept, rows = possible.copy(), np.arange(len(parent))
        wins, loses = values.min(1) > radius, values.max(1) < -radius
        kept[rows[wins], self.rival[parent][wins]] = False
        kept[rows[loses], self.leader[parent][loses]] = False
        return kept


@dataclass(frozen=True, eq=False)
class Judge:
    """Bounds the outputs of a network on cells of a slice.

    value: the level in place of labels, for a single output. most_errors: see ``Cluster``. rows: cells of a cluster.
    """

    network: SmoothNetwork
    slice: Slice
    value: float
    most_errors: int
    rows: int

    @property
    def n_labels(self) -> int:
        """Number of labels; a single output has the labels 0, not above the value, and 1, above it."""
        return max(2, self.network.program.n_outputs)

    def forms(self, center: FloatArray, frame: FloatArray, channels: int) -> tuple[Form, Cluster]:
        """The outputs of cells with these frames, as forms."""
        device = self.slice.origin.device
        cluster = Cluster(self.most_errors)
        middle, axes = torch.from_numpy(center).to(device), torch.from_numpy(frame).to(device)
        out = self.network.run(input_form(cluster, self.slice, middle, axes, channels), cluster)
        return (cluster.affine(_beside_zero(self.value, device), [out]) if out.shape == (1,) else out), cluster

    def judge(self, cells: Cells, chosen: IntArray, possible: BoolArray) -> Verdict:
        """The labels of cells that belong to one cluster."""
        (center, frame), corners = cells.frames(chosen), cells.corners(chosen)
        out, cluster = self.forms(center, frame, 1)
        leader = out.lines[0].argmax(1)
        radius = pair_radius(out, cluster, leader)
        for rival in _open_rivals(out, leader, radius[0], torch.from_numpy(possible).to(leader.device)):
            _tighten(radius, out, cluster, leader, rival)
        lines = out.lines.cpu().numpy()
        return _verdict(lines, leader.cpu().numpy(), radius[0].cpu().numpy(), center, frame, corners, possible)

    def slopes(
        self, center: FloatArray, frame: FloatArray, label: IntArray, rival: IntArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Bounds (b, k, c) of the derivatives of an output minus each other one, along the axes of each frame.

        rival: (b,) the one output for which the bounds are to be tight.
        """
        out, cluster = self.forms(center, frame, 1 + self.slice.dim)
        leader = torch.from_numpy(label).to(out.lines.device)
        rows = torch.arange(len(label), device=leader.device)
        radius = pair_radius(out, cluster, leader)
        if rival is not None:
            _tighten(radius, out, cluster, leader, torch.from_numpy(rival).to(leader.device))
        middle = out.lines[1:, rows, leader][..., None] - out.lines[1:]
        low, high = ((middle + sign * radius[1:]).transpose(0, 1).cpu().numpy() for sign in (-1, 1))
        return low, high


def _beside_zero(value: float, device: torch.device) -> AffineStep:
    """The outputs (0, f - value) of a single output f."""
    pad = partial(F.pad, pad=(1, 0))
    return AffineStep(pad, pad, torch.tensor([0.0, -value], dtype=torch.float64, device=device), 1)


def pair_radius(out: Form, cluster: Cluster, leader: Tensor) -> Tensor:
    """Bounds (q, b, c) of the errors of output ``leader`` minus each other one, through differences of effects."""
    rows = torch.arange(len(leader), device=leader.device)
    total = out.rest + out.rest[:, rows, leader][..., None] + _rounding(out, leader)
    for label in leader.unique().tolist():
        members = (leader == label).nonzero()[:, 0]
        for source, effect in out.effects.items():
            change = (effect - effect[:, label, None]).abs()
            total[:, members] += cluster.errors[source][:, members] @ change * (1 + 1e-9)
    return total


def _rounding(out: Form, leader: Tensor) -> Tensor:
    """Of the differences between output ``leader`` and each other one (b, c)."""
    size = out.lines.abs().sum(0)
    return 8 * UNIT * (size + size[torch.arange(len(leader), device=leader.device), leader][:, None])


def _tighten(radius: Tensor, out: Form, cluster: Cluster, leader: Tensor, rival: Tensor) -> None:
    """Take the bound that comes from the outputs backwards, for one other output (b,), where it is smaller."""
    rows = torch.arange(len(leader), device=leader.device)
    backwards = cluster.back(out, leader, rival) + _rounding(out, leader)[rows, rival]
    radius[:, rows, rival] = torch.fmin(radius[:, rows, rival], backwards)  # NaN: an unknown error, 0 times


def _open_rivals(out: Form, leader: Tensor, radius: Tensor, possible: Tensor) -> list[Tensor]:
    """Outputs (b,) that may be as large as the leader somewhere in the cells, those of the smallest margins first."""
    rows = torch.arange(len(leader), device=leader.device)
    differences = out.lines[:, rows, leader][..., None] - out.lines
    margin = differences[0] - differences[1:].abs().sum(0) - radius
    is_open = possible & ~(margin > 0)
    is_open[rows, leader] = False
    most = min(_RIVALS, int(is_open.sum(1).max()))
    order = torch.where(is_open, differences[0], torch.inf).argsort(dim=1, stable=True)[:, :most]
    return list(torch.where(is_open.gather(1, order), order, leader[:, None]).T)


def _verdict(
    lines: FloatArray, leader: IntArray, radius: FloatArray, center: FloatArray, frame: FloatArray,
    corners: FloatArray, possible: BoolArray,
) -> Verdict:  # fmt: skip
    rows = np.arange(len(leader))
    lead = lines[:, rows, leader]
    differences = lead[:, :, None] - lines  # (1 + k, b, c): leader minus others
    inverse = np.linalg.inv(frame)
    slopes = np.einsum("bki,ibc->bkc", inverse, differences[1:])  # x = center + t @ frame, t = (x - center) @ inverse
    start = differences[0] - np.einsum("bk,bkc->bc", center, slopes)
    weights = np.concatenate([start[:, None], slopes], 1)
    values = start[:, None] + corners @ slopes  # (b, v, c)
    far = np.abs(corners).max(1) + np.abs(center)
    size = np.abs(start) + np.einsum("bk,bkc->bc", far, np.abs(slopes))
    radius = radius + 64 * UNIT * size
    least, most = values.min(1), values.max(1)
    with np.errstate(invalid="ignore"):
        kept = possible & ~(least > radius)
    kept[rows, leader] = True
    kept &= possible | (np.arange(kept.shape[1]) == leader[:, None])
    rivals = kept.copy()
    rivals[rows, leader] = False
    with np.errstate(invalid="ignore", divide="ignore"):
        score = np.where(rivals, (most - least) / radius, -1.0)
    rival = np.where(np.isnan(score), 0.0, score).argmax(1)
    range_of = (most - least)[rows, rival]
    chosen = radius[rows, rival]
    chosen = np.where(np.isfinite(chosen), chosen, np.inf)
    level = chosen * (1 + 1e-9) + _WIDER * range_of
    return Verdict(kept, leader, rival, ~(chosen <= _FAR * range_of), weights[rows, :, rival], chosen, level)
