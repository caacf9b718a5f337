"""``certify``: whether a partition is the true one, decided in floats with bounds where they suffice, else in integers.

1. Every region has the pattern that its corners, or a point inside it, show. The set where a pattern holds is convex,
   and its sides lie on zero sets of units; so it is known from its corners.
2. A region is proved if the stored corners are those of that set: every other unit has the right sign at every corner.
3. A wall is proved if the patterns of its two regions differ in units that are zero on it, and in nothing else: then
   both sets share this side.
4. All regions that touch a proved one across a side are known. The slice is connected, so there are no others.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regionscope.certificate.bits import Bits, distinct
from regionscope.certificate.claim import ClaimedPartition, Index
from regionscope.certificate.corners import Proof, prove
from regionscope.certificate.document import document
from regionscope.certificate.frames import Local, corner_frames, frames_of
from regionscope.certificate.integers import IntegerNetwork, Integers, Pattern, homogeneous
from regionscope.certificate.regions import TrueRegion, TrueRegions
from regionscope.certificate.result import Certificate, Refutation
from regionscope.certificate.steps import read_steps
from regionscope.certificate.true_counts import Counts, RegionGraph, components, count
from regionscope.certificate.unit_bounds import Screened, screen
from regionscope.certificate.vertices import FAR, look
from regionscope.checks import read_integer
from regionscope.errors import InputError, LimitReached
from regionscope.extras import import_extra

_OFF = 1e-6  # of the extent of the slice: a stored vertex that is farther from the true one is refuted


def certify(part: Any, decision: tuple[Index, Index] | None = None, *, max_recomputed: int = 10_000) -> Certificate:
    """Certify a partition that carries its network. See ``Partition.certify``.

    decision: label and decision region of each piece, for partitions that are cut at the decision boundary.
    """
    start = time.perf_counter()
    read_integer("max_recomputed", max_recomputed)
    if not part.status:
        raise LimitReached(
            f"Expected a finished partition to certify, got an unfinished one: {part.status.reason}. Raise max_regions "
            "or take a smaller slice."
        )
    if part.program is None:
        raise InputError(
            "Expected a partition that carries its network, got one from a file. Pass the network: "
            "Partition.load(path, program=trace(model, input_shape))."
        )
    judge, linear_ids = _Judge(part, part.program, max_recomputed), part.linear_ids.cpu().numpy()
    try:
        judge.prove()
        judge.recompute()
        return judge.verdict(linear_ids, decision, start)
    except LimitReached as limit:
        judge.give_up()
        return judge.verdict(linear_ids, decision, start, str(limit))


class _Judge:
    """The work on one partition: what is proved, what is wrong, and what is left."""

    def __init__(self, part: Any, program: Any, most: int) -> None:
        import_extra("flint", who="certify() needs", library="python-flint", extra="certify")
        self.part, self.most = part, most
        self.claim = ClaimedPartition.of(part)
        self.steps = read_steps(program)
        self.border = len(part.slice.halfspaces[1])
        self.n_rows = self.border + self.steps.n_rows
        self.code = Bits(self.steps, self.border)
        self.extent = float(np.ptp(self.claim.vertices, axis=0).max())
        self.reasons: dict[int, str] = {}  # region: why it is refuted
        self.found: dict[bytes, TrueRegion] = {}
        self.left = 0
        self.outputs_of: dict[bytes, Integers] = {}
        self.recomputed = 0

    @cached_property
    def network(self) -> IntegerNetwork:
        """The network in integers."""
        return IntegerNetwork(self.steps, self.part.slice)

    @cached_property
    def true(self) -> TrueRegions:
        """The true regions that were asked for."""
        return TrueRegions(self.network)

    def prove(self) -> None:
        """Prove regions in floats, up to three dimensions; find the faults that need no arithmetic."""
        claim = self.claim
        for reason, regions in claim.faults():
            self._refute(regions, reason)
        everything, empty = np.arange(claim.n), np.full(claim.n, np.inf)
        self.proof = Proof(np.zeros(claim.n, dtype=bool), np.zeros(claim.n, dtype=np.int64), np.inf, empty)
        self.rows = np.full((len(claim.wall_regions), 2), -1, dtype=np.int64)
        self.layer = np.full(len(claim.wall_regions), -1, dtype=np.int64)
        in_floats = claim.dim <= 3 and not self.reasons
        if in_floats:
            frames = corner_frames(claim.points, claim.offsets, claim.owner)
            self.screened = look(self.steps, self.part.slice, claim, frames, self.code)
            self._read_walls(np.arange(len(claim.wall_regions)))
            self.proof = self._proved(everything, self.screened, frames, reach=3.0, step=FAR)
        rest = np.flatnonzero(~self._settled())
        if len(rest):
            self._prove_again(rest, in_floats)
        wrong = (self.layer != claim.wall_layer) & (self.layer >= 0)
        self._refute(claim.wall_regions[wrong].ravel(), "a wall belongs to another nonlinearity")
        if self.reasons:
            self.proof = replace(self.proof, proved=np.zeros(claim.n, dtype=bool))

    def _prove_again(self, rest: Index, in_floats: bool) -> None:
        """Look at some regions once more, each by itself."""
        own = self.claim.part(rest)
        boxes = frames_of(own.vertices, own.corners, own.offsets)
        again = screen(self.steps, self.part.slice, boxes, self.code)
        for i in np.flatnonzero(~again.sure)[: self.most]:  # the pattern of the reference point
            again.bits[i] = self.code.encode(self.network.pattern(homogeneous(boxes.reference[i]))[None])
        if not in_floats:
            self.screened = again
            self._read_walls(np.arange(len(self.claim.wall_regions)))
            return
        before = self._meeting()
        for name in ("bits", "slopes", "slope_error"):
            getattr(self.screened, name)[rest] = getattr(again, name)
        self._read_walls(np.flatnonzero(np.isin(self.claim.wall_regions, rest).any(1)))
        self.proof.proved[self.claim.owner[(before != self._meeting()).any(1)]] = False
        proof = self._proved(rest, again, boxes.local(own.points, own.owner), reach=1.009, step=0.002)
        for name in ("proved", "undecided", "moved"):
            getattr(self.proof, name)[rest] = getattr(proof, name)
        self.proof = replace(self.proof, nearest=min(self.proof.nearest, proof.nearest))

    def _proved(self, regions: Index, screened: Screened, frames: Local, *, reach: float, step: float) -> Proof:
        """What floats prove about these regions, with the patterns that are known now."""
        claim, rows = self.claim.part(regions), self._meeting()[np.isin(self.claim.owner, regions)]
        return prove(claim, frames, screened.near, rows, self.n_rows, screened.sure, reach=reach, step=step)

    def _read_walls(self, walls: Index) -> None:
        """For these walls the constraints of their regions that are zero on them, and the nonlinearities."""
        regions = self.claim.wall_regions[walls]
        inner = (regions >= 0).all(1)
        self.rows[walls[inner]], self.layer[walls[inner]] = self.code.walls(self.screened.bits, regions[inner])
        if not self.reasons:
            self.rows[walls[~inner]] = self._border_rows(walls[~inner])[:, None]

    def _meeting(self) -> Index:
        """The k constraints that are zero in each corner (corners, k); -1 if they are not known."""
        walls = self.claim.meeting
        side = np.take(self.claim.wall_regions[:, 1], walls) == self.claim.owner[:, None]
        return np.where(walls >= 0, np.take(self.rows.reshape(-1), 2 * walls + side), -1)

    def _border_rows(self, walls: Index) -> Index:
        """The side of the slice that each outer wall lies on."""
        normals, bounds = (part.cpu().numpy() for part in self.part.slice.halfspaces)
        claim = self.claim
        counts = np.diff(claim.wall_offsets)[walls]
        starts = np.cumsum(counts) - counts
        entry = np.arange(counts.sum()) + np.repeat(claim.wall_offsets[walls] - starts, counts)
        gap = np.abs(bounds - claim.vertices[claim.wall_vertices[entry]] @ normals.T)
        found: Index = np.maximum.reduceat(gap, starts).argmin(1)
        return found

    def _refute(self, regions: Index, reason: str) -> None:
        for region in regions.tolist():
            self.reasons.setdefault(int(region), reason)

    def _settled(self) -> NDArray[np.bool_]:
        """The regions that are proved, with stored vertices that are close to the true ones."""
        return self.proof.proved & (self.proof.moved <= _OFF * self.extent)

    def recompute(self) -> None:
        """Compute the regions that floats do not prove in integers; where they differ, find the true ones around."""
        claim, proof = self.claim, self.proof
        if distinct(self.screened.bits) < claim.n:
            same = Counter(row.tobytes() for row in self.screened.bits)
            twice = [i for i, row in enumerate(self.screened.bits) if same[row.tobytes()] > 1]
            self._refute(np.array(twice), "two regions have the same pattern")
        settled = self._settled()
        doubtful = np.flatnonzero(~settled)
        around = self._neighbours(doubtful)
        per_corner = np.diff(claim.offsets) * self.n_rows
        for done, region in enumerate(doubtful.tolist()):
            if done >= self.most:
                self.left = int(np.maximum(proof.undecided, 1)[doubtful[done:]].sum())
                return
            self.recomputed += int(proof.undecided[region]) or int(per_corner[region])
            reason = self._compare(region, around[region])
            if reason is None:
                settled[region] = True
            else:
                self.reasons.setdefault(region, reason)
        self.settled = settled & ~np.isin(np.arange(claim.n), list(self.reasons))
        if self.reasons:
            self._grow()

    def give_up(self) -> None:
        """Leave open what floats do not prove."""
        self.left = max(1, int(np.maximum(self.proof.undecided, 1)[~self.proof.proved].sum()))

    def _grow(self) -> None:
        """The true regions in place of the refuted ones."""
        good = {self._key(i) for i in np.flatnonzero(self.settled).tolist()}
        keys = [self._key(i) for i in self.reasons]
        start = [key for key in keys if key not in good and self.true.of(_pattern(key)) is not None]
        found = self.true.grow(start or ([] if good else [self.true.somewhere()]), good.__contains__, self.most)
        if found is None:
            self.left = self.left or int(np.maximum(self.proof.undecided, 1)[list(self.reasons)].sum())
        else:
            self.found = found

    def _key(self, region: int) -> bytes:
        key: bytes = self.code.decode(self.screened.bits[region : region + 1])[0].tobytes()
        return key

    def _neighbours(self, regions: Index) -> dict[int, list[bytes | None]]:
        """For each of these regions the patterns behind its walls; None is the outside."""
        around: dict[int, list[bytes | None]] = {int(region): [] for region in regions}
        walls = self.claim.wall_regions
        for a, b in walls[np.isin(walls, regions).any(1)].tolist():
            for here, there in ((a, b), (b, a)):
                if here in around:
                    around[here].append(self._key(there) if there >= 0 else None)
        return around

    def _compare(self, region: int, around: list[bytes | None]) -> str | None:
        """Why a region is not the true one of its pattern; None if it is."""
        true = self.true.of(_pattern(self._key(region)))
        if true is None:
            return "no region has this pattern"
        if Counter(around) != Counter(true.behind):
            return "the true region has other neighbours"
        rows = slice(*self.claim.offsets[region : region + 2])
        stored = self.claim.vertices[self.claim.corners[rows]]
        corners = np.array([[number / corner[-1] for number in corner[:-1]] for corner in true.polytope.corners])
        gaps = np.abs(stored[:, None] - corners[None]).max(2)
        if len(stored) != len(corners) or max(gaps.min(0).max(), gaps.min(1).max()) > _OFF * self.extent:
            return "the true region has other vertices"
        return None

    def _outputs(self, key: bytes) -> Integers:
        if key not in self.outputs_of:
            self.outputs_of[key] = self.network.cell(_pattern(key)).outputs
        return self.outputs_of[key]

    def verdict(
        self, linear_ids: Index, decision: tuple[Index, Index] | None, start: float, reason: str = ""
    ) -> Certificate:
        """Count what is true, and compare it with what the partition says. reason: why signs are left open."""
        refuted: list[Refutation] = []
        numbers: dict[str, Any] = {}
        evidence = None
        if not self.left:
            graph = self._graph()
            counts = count(
                self.steps, graph, lambda i: self._outputs(self.code.decode(graph.bits[i : i + 1])[0].tobytes())
            )
            refuted, numbers = self._clusters(), counts.numbers()
            refuted += self._wrong_counts(counts, linear_ids, decision)
            if not refuted:
                evidence = partial(document, self.steps, self.part.slice, graph, numbers)
        moved = self.proof.moved[self.proof.proved]
        return Certificate(
            certified=not self.left and not refuted,
            refuted=tuple(refuted),
            counts=numbers,
            signs=self.n_rows * len(self.claim.corners),
            recomputed=self.recomputed,
            unproved=self.left,
            nearest_tie=self.proof.nearest,
            vertex_error=float(moved.max(initial=0.0)),
            seconds=time.perf_counter() - start,
            reason=reason,
            document=evidence,
        )

    def _graph(self) -> RegionGraph:
        bits, slopes, error = self.screened.bits, self.screened.slopes, self.screened.slope_error
        inner = self.claim.wall_regions[(self.claim.wall_regions >= 0).all(1)]
        if not self.reasons:
            return RegionGraph(self.code, bits, inner, slopes, error)
        good = np.flatnonzero(self.settled)
        place = {self._key(i): n for n, i in enumerate(good.tolist())}
        place |= {key: len(good) + n for n, key in enumerate(self.found)}
        new = np.full(self.claim.n, -1)
        new[good] = np.arange(len(good))
        pairs = new[inner]
        pairs = pairs[(pairs >= 0).all(1)]
        more = [(place[key], place[other]) for key, true in self.found.items() for other in true.behind if other]
        every = np.concatenate([pairs, np.array(more, dtype=np.int64).reshape(-1, 2)])
        patterns = np.array([_pattern(key) for key in place]).reshape(len(place), -1)
        return RegionGraph(self.code, self.code.encode(patterns), every, slopes[good], error[good])

    def _clusters(self) -> list[Refutation]:
        """Refuted regions that hang together, with the number of true regions in their place."""
        if not self.reasons:
            return []
        bad = list(self.reasons)
        nodes = {key: len(bad) + i for i, key in enumerate(self.found)}
        pairs = [(i, nodes[key]) for i, region in enumerate(bad) if (key := self._key(region)) in nodes]
        pairs += [(nodes[key], nodes[o]) for key, true in self.found.items() for o in true.behind if o in nodes]
        place = {region: i for i, region in enumerate(bad)}
        pairs += [(place[a], place[b]) for a, b in self.claim.wall_regions.tolist() if a in place and b in place]
        group = components(len(bad) + len(nodes), np.array(pairs, dtype=np.int64).reshape(-1, 2))
        found = []
        for one in np.unique(group[: len(bad)]):
            members = [bad[i] for i in np.flatnonzero(group[: len(bad)] == one)]
            reasons = Counter(self.reasons[region] for region in members)
            found.append(
                Refutation(
                    reasons.most_common(1)[0][0], tuple(members), len(members), int((group[len(bad) :] == one).sum())
                )
            )
        return found

    def _wrong_counts(
        self, counts: Counts, linear_ids: Index, decision: tuple[Index, Index] | None
    ) -> list[Refutation]:
        found = []
        for name, claimed in self.part.by_layer.items():
            if counts.by_layer.get(name) != claimed:
                found.append(Refutation(f"activation regions after {name}", (), claimed, counts.by_layer.get(name, 0)))
        if self.reasons:  # the numbers of regions mean nothing then
            return found
        if not _same_parts(linear_ids, counts.linear_ids):
            found.append(Refutation("linear regions", (), int(linear_ids.max()) + 1, counts.linear))
        if decision is not None:
            wrong = np.flatnonzero(decision[0] != counts.labels)
            if len(wrong):
                found.append(Refutation("labels", tuple(wrong.tolist()), len(wrong), 0))
            if not _same_parts(decision[1], counts.decision_ids):
                found.append(Refutation("decision regions", (), int(decision[1].max()) + 1, counts.decision))
        return found


def _same_parts(a: Index, b: Index) -> bool:
    """Whether two numberings divide the same things into the same parts."""
    one_in_other = []
    for mine, other in ((a, b), (b, a)):
        partner = np.empty(int(mine.max(initial=0)) + 1, dtype=np.int64)
        partner[mine] = other
        one_in_other.append(bool((partner[mine] == other).all()))
    return all(one_in_other)


def _pattern(key: bytes) -> Pattern:
    return np.frombuffer(key, dtype=np.int16)
