"""The second part of a certificate: regions that floats do not prove, compared with the true ones in integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from regionscope.certificate.bits import distinct
from regionscope.certificate.float_proof import FloatProof
from regionscope.certificate.regions import TrueRegion, pattern_of
from regionscope.errors import LimitReached
from regionscope.types import BoolArray, IntArray

_TOGETHER = 512  # regions whose patterns are decoded together


@dataclass(frozen=True, eq=False)
class IntegerProof:
    """What floats and integers say about a partition.

    refuted: regions that are not true ones, and the reason. settled: (r,) the regions that are. true_regions: those
    in place of the refuted ones, by their patterns. recomputed: number of signs computed in integers. left: number of
    signs that stay open; if there are any, the rest is incomplete. limit: why, if integers do not take the network.
    """

    floats: FloatProof
    refuted: Mapping[int, str]
    settled: BoolArray
    true_regions: Mapping[bytes, TrueRegion]
    recomputed: int
    left: int = 0
    limit: str = ""

    def given_up(self, limit: str) -> IntegerProof:
        """The same with everything open that floats do not prove."""
        left = max(1, self.floats.n_open(~self.floats.proof.proved))
        return replace(self, left=left, limit=limit)


def prove_in_integers(floats: FloatProof) -> IntegerProof:
    """Compute the regions that floats do not prove in integers; where they differ, find the true ones around."""
    claim, most = floats.subject.claim, floats.subject.most
    refuted, settled, recomputed = dict(floats.refuted), floats.settled(), 0
    if floats.limit:
        return IntegerProof(floats, refuted, settled, {}, recomputed).given_up(floats.limit)
    for region in _with_equal_patterns(floats):
        refuted.setdefault(region, "two regions have the same pattern")
    doubtful = np.flatnonzero(~settled)
    around = _neighbours(floats, doubtful)
    per_corner = np.diff(claim.offsets) * floats.subject.n_rows
    try:
        for done, region in enumerate(doubtful.tolist()):
            if done >= most:
                left = floats.n_open(doubtful[done:])
                return IntegerProof(floats, refuted, settled, {}, recomputed, left)
            recomputed += int(floats.proof.undecided[region]) or int(per_corner[region])
            if done % _TOGETHER == 0:
                keys = floats.keys(doubtful[done : min(most, done + _TOGETHER)])
                floats.subject.true.prepare(keys)
            reason = _difference(floats, region, keys[done % _TOGETHER], around[region])
            if reason is None:
                settled[region] = True
            else:
                refuted.setdefault(region, reason)
        settled &= ~np.isin(np.arange(claim.n), list(refuted))
        true_regions = _true_regions(floats, refuted, settled) if refuted else {}
    except LimitReached as limit:
        return IntegerProof(floats, refuted, settled, {}, recomputed).given_up(str(limit))
    left = floats.n_open(np.array(list(refuted))) if true_regions is None else 0
    return IntegerProof(floats, refuted, settled, true_regions or {}, recomputed, left)


def _with_equal_patterns(floats: FloatProof) -> list[int]:
    """The regions whose pattern another one has too."""
    bits = floats.screened.bits
    if distinct(bits) == floats.subject.claim.n:
        return []
    same = Counter(row.tobytes() for row in bits)
    return [i for i, row in enumerate(bits) if same[row.tobytes()] > 1]


def _neighbours(floats: FloatProof, regions: IntArray) -> dict[int, list[bytes | None]]:
    """For each of these regions the patterns behind its walls; None is the outside."""
    around: dict[int, list[bytes | None]] = {int(region): [] for region in regions}
    walls = floats.subject.claim.wall_regions
    walls = walls[np.isin(walls, regions).any(1)]
    named = np.unique(walls[walls >= 0])
    keys = dict(zip(named.tolist(), floats.keys(named), strict=True))
    for a, b in walls.tolist():
        for region, other in ((a, b), (b, a)):
            if region in around:
                around[region].append(keys.get(other))
    return around


def _difference(floats: FloatProof, region: int, key: bytes, around: list[bytes | None]) -> str | None:
    """Why a region is not the true one of its pattern; None if it is."""
    subject, claim = floats.subject, floats.subject.claim
    true = subject.true.of(pattern_of(key))
    if true is None:
        return "no region has this pattern"
    if Counter(around) != Counter(true.behind):
        return "the true region has other neighbours"
    rows = slice(*claim.offsets[region : region + 2])
    stored = claim.vertices[claim.corners[rows]]
    corners = np.array([[number / corner[-1] for number in corner[:-1]] for corner in true.polytope.corners])
    gaps = np.abs(stored[:, None] - corners[None]).max(2)
    if len(stored) != len(corners) or max(gaps.min(0).max(), gaps.min(1).max()) > subject.most_moved:
        return "the true region has other vertices"
    return None


def _true_regions(floats: FloatProof, refuted: Mapping[int, str], settled: BoolArray) -> dict[bytes, TrueRegion] | None:
    """The true regions in place of the refuted ones; None if there are too many."""
    true = floats.subject.true
    good, keys = set(floats.keys(np.flatnonzero(settled))), floats.keys(list(refuted))
    start = [key for key in keys if key not in good and true.of(pattern_of(key)) is not None]
    return true.grow(start or ([] if good else [true.somewhere()]), good.__contains__, floats.subject.most)
