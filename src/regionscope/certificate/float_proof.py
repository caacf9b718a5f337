"""The first part of a certificate: the regions that floats with error bounds prove, up to three dimensions.

All regions are looked at together, from one forward pass of their vertices. Those that this leaves open are looked at
once more, each by itself, with integers for the patterns that floats do not decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regionscope.certificate.claim import ClaimedPartition, Subject
from regionscope.certificate.corners import Proof, prove
from regionscope.certificate.frames import Frames, Local, corner_frames, frames_of
from regionscope.certificate.integers import homogeneous
from regionscope.certificate.unit_bounds import Screened, screen
from regionscope.certificate.vertices import MOST_CORNER_SHIFT, screen_by_vertices
from regionscope.errors import LimitReached
from regionscope.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class FloatProof:
    """What floats say about a partition.

    screened: patterns and slopes of the regions. proof: the regions that are proved. refuted: regions with a fault that
    needs no integers, and the reason. limit: why integers do not take the network, if they were needed here.
    """

    subject: Subject
    screened: Screened
    proof: Proof
    refuted: Mapping[int, str]
    limit: str = ""

    def settled(self) -> BoolArray:
        """The regions that are proved, with stored vertices that are close to the true ones."""
        return _settled(self.subject, self.proof)

    def key(self, region: int) -> bytes:
        """The pattern of a region."""
        return self.keys([region])[0]

    def keys(self, regions: IntArray | list[int]) -> list[bytes]:
        """The patterns of several regions."""
        return [pattern.tobytes() for pattern in self.subject.code.decode(self.screened.bits[regions])]

    def n_open(self, regions: IntArray | BoolArray) -> int:
        """Number of signs of these regions that floats leave open, at least one for each region."""
        return int(np.maximum(self.proof.undecided, 1)[regions].sum())


@dataclass(frozen=True, eq=False)
class _WallRows:
    """rows: (w, 2) for each wall the constraints of its regions that are zero on it. layer: (w,) its fold.

    -1 where they are unknown.
    """

    rows: IntArray
    layer: IntArray

    @staticmethod
    def unknown(n: int) -> _WallRows:
        return _WallRows(np.full((n, 2), -1, dtype=np.int64), np.full(n, -1, dtype=np.int64))

    def meeting(self, claim: ClaimedPartition) -> IntArray:
        """The k constraints that are zero in each corner (corners, k); -1 if they are not known."""
        walls = claim.meeting
        side = np.take(claim.wall_regions[:, 1], walls) == claim.owner[:, None]
        return np.where(walls >= 0, np.take(self.rows.reshape(-1), 2 * walls + side), -1)


@dataclass(frozen=True, eq=False)
class _Findings:
    """What floats prove about some regions, from one pass over them."""

    screened: Screened
    walls: _WallRows
    proof: Proof


def prove_in_floats(subject: Subject) -> FloatProof:
    """Prove regions in floats, and find the faults that need no arithmetic."""
    claim, refuted = subject.claim, dict[int, str]()
    for reason, regions in claim.faults():
        refuted.update({region: reason for region in regions.tolist() if region not in refuted})
    in_floats = claim.dim <= 3 and not refuted
    findings = _together(subject) if in_floats else _nothing_proved(subject)
    try:
        if in_floats:
            findings = _one_by_one(subject, findings)
        else:
            findings = _patterns_alone(subject, findings, outer=not refuted)
    except LimitReached as limit:
        return FloatProof(subject, findings.screened, findings.proof, refuted, str(limit))
    wrong = (findings.walls.layer != claim.wall_layer) & (findings.walls.layer >= 0)
    for region in claim.wall_regions[wrong].ravel().tolist():
        refuted.setdefault(region, "a wall belongs to another fold")
    proof = replace(findings.proof, proved=np.zeros(claim.n, dtype=bool)) if refuted else findings.proof
    return FloatProof(subject, findings.screened, proof, refuted)


def _together(subject: Subject) -> _Findings:
    """Look at all regions at once."""
    claim = subject.claim
    frames = corner_frames(claim.points, claim.offsets, claim.owner)
    screened = screen_by_vertices(subject.steps, subject.part.slice, claim, frames, subject.code)
    n = len(claim.wall_regions)
    walls = _read_walls(subject, screened, np.arange(n), _WallRows.unknown(n))
    everything = np.arange(claim.n)
    proof = _proved(subject, everything, screened, walls, frames, reach=3.0, step=MOST_CORNER_SHIFT)
    return _Findings(screened, walls, proof)


def _one_by_one(subject: Subject, first: _Findings) -> _Findings:
    """Look at the regions that are not settled once more, each by itself."""
    claim = subject.claim
    rest = np.flatnonzero(~_settled(subject, first.proof))
    if not len(rest):
        return first
    rest_claim = claim.part(rest)
    boxes = frames_of(rest_claim.vertices, rest_claim.corners, rest_claim.offsets)
    again = screen(subject.steps, subject.part.slice, boxes, subject.code)
    again = _with_patterns(subject, again, boxes)
    screened = _updated(first.screened, rest, again, ("bits", "slopes", "slope_error"))
    touched = np.flatnonzero(np.isin(claim.wall_regions, rest).any(1))
    walls = _read_walls(subject, screened, touched, first.walls)
    changed = (first.walls.meeting(claim) != walls.meeting(claim)).any(1)
    proved = first.proof.proved.copy()
    proved[claim.owner[changed]] = False
    local = boxes.local(rest_claim.points, rest_claim.owner)
    proof = _proved(subject, rest, again, walls, local, reach=1.009, step=0.002)
    whole = _updated(replace(first.proof, proved=proved), rest, proof, ("proved", "undecided", "moved"))
    return _Findings(screened, walls, replace(whole, nearest=min(whole.nearest, proof.nearest)))


def _nothing_proved(subject: Subject) -> _Findings:
    """Patterns of the regions, each by itself, where floats decide them."""
    claim = subject.claim
    boxes = frames_of(claim.vertices, claim.corners, claim.offsets)
    screened = screen(subject.steps, subject.part.slice, boxes, subject.code)
    nothing = Proof(np.zeros(claim.n, dtype=bool), np.zeros(claim.n, dtype=np.int64), np.inf, np.full(claim.n, np.inf))
    return _Findings(screened, _WallRows.unknown(len(claim.wall_regions)), nothing)


def _patterns_alone(subject: Subject, first: _Findings, *, outer: bool) -> _Findings:
    """The same with all patterns, and the walls between them."""
    claim = subject.claim
    boxes = frames_of(claim.vertices, claim.corners, claim.offsets)
    screened = _with_patterns(subject, first.screened, boxes)
    walls = _read_walls(subject, screened, np.arange(len(claim.wall_regions)), first.walls, outer=outer)
    return replace(first, screened=screened, walls=walls)


def _with_patterns(subject: Subject, screened: Screened, boxes: Frames) -> Screened:
    """With the pattern of the reference point where floats leave that of the region open."""
    bits = screened.bits.copy()
    for i in np.flatnonzero(~screened.sure)[: subject.most]:
        bits[i] = subject.code.encode(subject.network.pattern(homogeneous(boxes.reference[i]))[None])
    return replace(screened, bits=bits)


def _proved(
    subject: Subject,
    regions: IntArray,
    screened: Screened,
    walls: _WallRows,
    frames: Local,
    *,
    reach: float,
    step: float,
) -> Proof:
    """What floats prove about these regions, with the patterns that are known now."""
    claim = subject.claim
    rows = walls.meeting(claim)[np.isin(claim.owner, regions)]
    regions_claim = claim.part(regions)
    return prove(regions_claim, frames, screened.near, rows, subject.n_rows, screened.sure, reach=reach, step=step)


def _settled(subject: Subject, proof: Proof) -> BoolArray:
    return proof.proved & (proof.moved <= subject.most_moved)


def _read_walls(
    subject: Subject, screened: Screened, walls: IntArray, before: _WallRows, *, outer: bool = True
) -> _WallRows:
    """These walls read from the patterns, the others as before. outer: whether to find the sides of the slice too."""
    regions = subject.claim.wall_regions[walls]
    inner = (regions >= 0).all(1)
    rows, layer = before.rows.copy(), before.layer.copy()
    rows[walls[inner]], layer[walls[inner]] = subject.code.walls(screened.bits, regions[inner])
    if outer:
        rows[walls[~inner]] = _border_rows(subject, walls[~inner])[:, None]
    return _WallRows(rows, layer)


def _border_rows(subject: Subject, walls: IntArray) -> IntArray:
    """The side of the slice that each outer wall lies on."""
    normals, bounds = (part.cpu().numpy() for part in subject.part.slice.halfspaces)
    claim = subject.claim
    counts = np.diff(claim.wall_offsets)[walls]
    starts = np.cumsum(counts) - counts
    entry = np.arange(counts.sum()) + np.repeat(claim.wall_offsets[walls] - starts, counts)
    gap = np.abs(bounds - claim.vertices[claim.wall_vertices[entry]] @ normals.T)
    found: IntArray = np.maximum.reduceat(gap, starts).argmin(1)
    return found


def _updated(whole: Any, regions: IntArray, part: Any, names: tuple[str, ...]) -> Any:
    """``whole`` with these arrays of ``part`` in the rows of some regions."""
    arrays = {name: getattr(whole, name).copy() for name in names}
    for name, array in arrays.items():
        array[regions] = getattr(part, name)
    return replace(whole, **arrays)
