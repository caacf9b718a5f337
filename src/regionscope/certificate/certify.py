"""``certify``: whether a partition is the true one, decided in floats with bounds where they suffice, else in integers.

1. Every region has the pattern of a point inside it. The set where a pattern holds is convex, and its sides lie on
   zero sets of units; so it is known from its corners.
2. A region is proved if the stored corners are those of that set: every other unit has the right sign at every corner.
3. A wall is proved if the patterns of its two regions differ in units that are zero on it, and in nothing else: then
   both sets share this side.
4. All regions that touch a proved one across a side are known. The slice is connected, so there are no others.
"""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from typing import Any

import numpy as np

from regionscope.certificate.claim import Claim, Index, wall_rows
from regionscope.certificate.corners import Proof, prove
from regionscope.certificate.document import document
from regionscope.certificate.filter import Screened, screen
from regionscope.certificate.frames import frames_of
from regionscope.certificate.integers import IntegerNetwork, Integers, homogeneous
from regionscope.certificate.regions import TrueRegion, TrueRegions
from regionscope.certificate.result import Certificate, Refutation
from regionscope.certificate.steps import read_steps
from regionscope.certificate.truth import Counts, Graph, components, count
from regionscope.checks import whole
from regionscope.errors import InputError, LimitReached

__all__ = ["certify"]

_OFF = 1e-6  # of the extent of the slice: a stored vertex that is farther from the true one is refuted


def certify(part: Any, decision: tuple[Index, Index] | None = None, *, max_recomputed: int = 10_000) -> Certificate:
    """Certify a partition that carries its network. See ``Partition.certify``.

    decision: the label and the decision region of each piece, where pieces are cut at the decision boundary.
    """
    start = time.perf_counter()
    whole("max_recomputed", max_recomputed)
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
    judge = _Judge(part, part.program, max_recomputed)
    judge.settle_patterns()
    judge.prove()
    judge.recompute()
    return judge.verdict(part.linear_ids.cpu().numpy(), decision, start)


class _Judge:
    """The work on one partition: what is proved, what is wrong, and what is left."""

    def __init__(self, part: Any, program: Any, most: int) -> None:
        self.part, self.most = part, most
        self.claim = Claim.of(part)
        self.steps = read_steps(program)
        self.network = IntegerNetwork(self.steps, part.slice)
        self.true = TrueRegions(self.network)
        self.extent = float(np.ptp(self.claim.vertices, axis=0).max())
        self.frames = frames_of(self.claim.vertices, self.claim.corners, self.claim.offsets)
        self.screened: Screened = screen(self.steps, part.slice, self.frames)
        self.patterns = self.screened.patterns
        self.reasons: dict[int, str] = {}  # region: why it is refuted
        self.found: dict[bytes, TrueRegion] = {}
        self.left = 0
        self.outputs_of: dict[bytes, Integers] = {}
        self.n_rows = len(self.network.border) + self.steps.n_rows
        self.recomputed = 0

    def settle_patterns(self) -> None:
        """The pattern of the reference point in integers where floats leave it open."""
        for region in np.flatnonzero(~self.screened.sure)[: self.most]:
            self.patterns[region] = self.network.pattern(homogeneous(self.frames.reference[region]))

    def prove(self) -> None:
        """Prove regions of lines and planes in floats; find the faults that need no arithmetic."""
        claim = self.claim
        for reason, regions in claim.faults():
            self._refute(regions, reason)
        inner = np.flatnonzero((claim.wall_regions >= 0).all(1))
        pairs = claim.wall_regions[inner]
        row, layer = wall_rows(self.steps, self.patterns, pairs[:, 0], pairs[:, 1], len(self.network.border))
        wrong = (layer != claim.wall_layer[inner]) & (layer >= 0)
        self._refute(pairs[wrong].ravel(), "a wall belongs to another nonlinearity")
        n = claim.n
        if claim.dim > 2 or self.reasons:
            self.proof = Proof(np.zeros(n, dtype=bool), np.zeros(n, dtype=np.int64), np.inf, np.full(n, np.inf))
            return
        back = wall_rows(self.steps, self.patterns, pairs[:, 1], pairs[:, 0], len(self.network.border))[0]
        rows = np.full((len(claim.wall_regions), 2), -1, dtype=np.int64)
        rows[inner, 0], rows[inner, 1] = row, back
        outer = np.flatnonzero((claim.wall_regions < 0).any(1))
        rows[outer] = self._border_rows(outer)[:, None]
        second = claim.wall_regions[claim.sides, 1] == claim.owner
        sides = rows[claim.sides, second.astype(np.int64)]
        self.proof = prove(claim, self.frames, self.screened.near, sides, self.n_rows, self.screened.sure)

    def _border_rows(self, walls: Index) -> Index:
        """The side of the slice that each outer wall lies on."""
        normals, bounds = (part.cpu().numpy() for part in self.part.slice.halfspaces)
        ends = self.claim.wall_vertices.reshape(len(self.claim.wall_regions), -1)[walls]
        gap = np.abs(bounds - self.claim.vertices[ends] @ normals.T).max(1)
        found: Index = gap.argmin(1)
        return found

    def _refute(self, regions: Index, reason: str) -> None:
        for region in regions.tolist():
            self.reasons.setdefault(int(region), reason)

    def recompute(self) -> None:
        """Compute the regions that floats do not prove in integers; where they differ, find the true ones around."""
        claim, proof = self.claim, self.proof
        keys = [row.tobytes() for row in self.patterns]
        twice = {key for key, n in Counter(keys).items() if n > 1}
        for region in [i for i, key in enumerate(keys) if key in twice]:
            self.reasons.setdefault(region, "two regions have the same pattern")
        doubtful = np.flatnonzero(~proof.proved | (proof.moved > _OFF * self.extent))
        around = self._neighbours(keys) if len(doubtful) else []
        settled = proof.proved & (proof.moved <= _OFF * self.extent)
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
            good = {key for key, fine in zip(keys, self.settled, strict=True) if fine}
            start = [
                keys[i] for i in self.reasons if keys[i] not in good and self.true.of(self.patterns[i]) is not None
            ]
            found = self.true.grow(start or ([] if good else [self.true.somewhere()]), good.__contains__, self.most)
            if found is None:
                self.left = self.left or int(np.maximum(proof.undecided, 1)[list(self.reasons)].sum())
            else:
                self.found = found

    def _neighbours(self, keys: list[bytes]) -> list[list[bytes | None]]:
        """For each region the patterns behind its walls; None is the outside."""
        around: list[list[bytes | None]] = [[] for _ in keys]
        for a, b in self.claim.wall_regions.tolist():
            for here, there in ((a, b), (b, a)):
                if here >= 0:
                    around[here].append(keys[there] if there >= 0 else None)
        return around

    def _compare(self, region: int, around: list[bytes | None]) -> str | None:
        """Why a region is not the true one of its pattern; None if it is."""
        true = self.true.of(self.patterns[region])
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
            self.outputs_of[key] = self.network.cell(np.frombuffer(key, dtype=np.int16)).outputs
        return self.outputs_of[key]

    def verdict(self, linear_ids: Index, decision: tuple[Index, Index] | None, start: float) -> Certificate:
        """Count what is true, and compare it with what the partition says."""
        refuted: list[Refutation] = []
        numbers: dict[str, Any] = {}
        evidence = None
        if not self.left:
            graph = self._graph()
            keys = [row.tobytes() for row in graph.patterns]
            counts = count(self.steps, graph, lambda i: self._outputs(keys[i]))
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
            document=evidence,
        )

    def _graph(self) -> Graph:
        if not self.reasons:
            pairs = self.claim.wall_regions[(self.claim.wall_regions >= 0).all(1)]
            return Graph(self.patterns, pairs, self.screened.slopes, self.screened.slope_error)
        good = np.flatnonzero(self.settled)
        place = {self.patterns[i].tobytes(): n for n, i in enumerate(good)}
        place |= {key: len(good) + n for n, key in enumerate(self.found)}
        new = np.full(self.claim.n, -1)
        new[good] = np.arange(len(good))
        inner = self.claim.wall_regions[(self.claim.wall_regions >= 0).all(1)]
        pairs = new[inner]
        pairs = pairs[(pairs >= 0).all(1)]
        more = [(place[key], place[other]) for key, true in self.found.items() for other in true.behind if other]
        every = np.concatenate([pairs, np.array(more, dtype=np.int64).reshape(-1, 2)])
        patterns = np.array([np.frombuffer(key, dtype=np.int16) for key in place]).reshape(len(place), -1)
        return Graph(patterns, every, self.screened.slopes[good], self.screened.slope_error[good])

    def _clusters(self) -> list[Refutation]:
        """Refuted regions that hang together, with the number of true regions in their place."""
        if not self.reasons:
            return []
        bad = list(self.reasons)
        nodes = {key: len(bad) + i for i, key in enumerate(self.found)}
        pairs = [(i, nodes[key]) for i, region in enumerate(bad) if (key := self.patterns[region].tobytes()) in nodes]
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
    return len({*zip(a.tolist(), b.tolist(), strict=True)}) == len({*a.tolist()}) == len({*b.tolist()})
