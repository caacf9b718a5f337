"""``certify``: whether a partition is the true one, decided in floats with bounds where they suffice, else in integers.

1. Every region has the pattern that its corners, or a point inside it, show. The set where a pattern holds is convex,
   and its sides lie on zero sets of units; so it is known from its corners.
2. A region is proved if the stored corners are those of that set: every other unit has the right sign at every corner.
3. A wall is proved if the patterns of its two regions differ in units that are zero on it, and in nothing else: then
   both sets share this side.
4. All regions that touch a proved one across a side are known. The slice is connected, so there are no others.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from functools import cache, partial
from typing import Any

import numpy as np

from regionscope.certificate.claim import MOST_DOUBTED_ERROR, MOST_VERTEX_ERROR, Subject
from regionscope.certificate.float_proof import prove_in_floats
from regionscope.certificate.integer_proof import IntegerProof, prove_in_integers
from regionscope.certificate.integers import Integers, as_integers, border_of
from regionscope.certificate.regions import pattern_of
from regionscope.certificate.result import Certificate, Refutation
from regionscope.certificate.steps import AffineStep, AnyStep, Largest, Steps
from regionscope.certificate.true_counts import Counts, RegionGraph, components, count
from regionscope.checks import read_integer
from regionscope.errors import InputError, LimitReached
from regionscope.geometry import Slice
from regionscope.types import FloatArray, IntArray

# what ``doubts`` computes in a few seconds at most
_MOST_WEIGHTS, _MOST_SIGNS, MOST_IN_INTEGERS = 2_000_000, 1 << 22, 2000  # weights: inputs times units


def certify(
    part: Any, decision: tuple[IntArray, IntArray] | None = None, *, max_recomputed: int = 10_000
) -> Certificate:
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
    part.program.require_continuous("certify()")
    return _certified(part, decision, Subject.of(part, max_recomputed), start)


def doubts(part: Any, decision: tuple[IntArray, IntArray] | None = None) -> Certificate | None:
    """The certificate of a partition that rounding made wrong or leaves open; None if it is right.

    None too where rounding hid no sign and vertices, walls and regions fit together, and for an unfinished or stored
    partition. Of a network or partition so large that integers would take minutes, all hidden signs are left open.
    """
    program, start = part.program, time.perf_counter()
    if not part.status or program is None or program.jumps or not (part.stats.snapped or _contradicts_euler(part)):
        return None
    units, inputs = program.n_units, math.prod(program.input_shape)
    if units * inputs > _MOST_WEIGHTS or units * len(part) > _MOST_SIGNS:
        left, reason = max(1, part.stats.snapped), "The network or the partition is too large for integers."
        seconds = time.perf_counter() - start
        return Certificate(False, (), {}, left, 0, left, math.inf, 0.0, seconds, reason)
    precise = part.dim < 3 and len(part) <= MOST_IN_INTEGERS  # integers compute it again
    error = MOST_DOUBTED_ERROR if precise else MOST_VERTEX_ERROR
    certificate = _certified(part, decision, Subject.of(part, MOST_IN_INTEGERS, error), start)
    return None if certificate.certified else certificate


def _contradicts_euler(part: Any) -> bool:
    """Whether the vertices of a plane are fewer or more than its walls and regions require. Cost: none, or one pass
    over the corners.
    """
    expected = 1 + len(part.walls.layer) - len(part)
    return part.dim == 2 and len(part.vertices) != expected and len(part.corners.unique()) != expected


def _certified(part: Any, decision: tuple[IntArray, IntArray] | None, subject: Subject, start: float) -> Certificate:
    proof = prove_in_integers(prove_in_floats(subject))
    if not proof.left:
        try:
            return _compared(proof, part.linear_ids.cpu().numpy(), decision, start)
        except LimitReached as limit:
            proof = proof.given_up(str(limit))
    return _certificate(proof, start)


def _compared(
    proof: IntegerProof, linear_ids: IntArray, decision: tuple[IntArray, IntArray] | None, start: float
) -> Certificate:
    """Count what is true, and compare it with what the partition says."""
    subject, graph = proof.floats.subject, _graph(proof)

    @cache
    def outputs(key: bytes) -> Integers:
        return subject.network.cell(pattern_of(key)).outputs

    counts = count(subject.steps, graph, lambda i: outputs(subject.code.decode(graph.bits[i : i + 1])[0].tobytes()))
    numbers = counts.numbers()
    refuted = [*_clusters(proof), *_wrong_counts(proof, counts, linear_ids, decision)]
    evidence = None if refuted else partial(document, subject.steps, subject.part.slice, graph, numbers)
    return _certificate(proof, start, refuted=tuple(refuted), counts=numbers, document=evidence)


def _certificate(
    proof: IntegerProof,
    start: float,
    *,
    refuted: tuple[Refutation, ...] = (),
    counts: dict[str, Any] | None = None,
    document: Any = None,
) -> Certificate:
    subject, in_floats = proof.floats.subject, proof.floats.proof
    return Certificate(
        certified=not proof.left and not refuted,
        refuted=refuted,
        counts=counts or {},
        signs=subject.n_rows * len(subject.claim.corners),
        recomputed=proof.recomputed,
        unproved=proof.left,
        nearest_tie=in_floats.nearest,
        vertex_error=float(in_floats.moved[in_floats.proved].max(initial=0.0)),
        seconds=time.perf_counter() - start,
        reason=proof.limit,
        document=document,
    )


def _graph(proof: IntegerProof) -> RegionGraph:
    """The true regions, and which of them touch across a wall."""
    floats, claim, code = proof.floats, proof.floats.subject.claim, proof.floats.subject.code
    bits, slopes, error = floats.screened.bits, floats.screened.slopes, floats.screened.slope_error
    inner = claim.wall_regions[(claim.wall_regions >= 0).all(1)]
    if not proof.refuted:
        return RegionGraph(code, bits, inner, slopes, error)
    good = np.flatnonzero(proof.settled)
    place = {floats.key(i): n for n, i in enumerate(good.tolist())}
    place |= {key: len(good) + n for n, key in enumerate(proof.true_regions)}
    new = np.full(claim.n, -1)
    new[good] = np.arange(len(good))
    pairs = new[inner]
    pairs = pairs[(pairs >= 0).all(1)]
    new_pairs = [
        (place[key], place[other]) for key, true in proof.true_regions.items() for other in true.behind if other
    ]
    every = np.concatenate([pairs, np.array(new_pairs, dtype=np.int64).reshape(-1, 2)])
    patterns = np.array([pattern_of(key) for key in place]).reshape(len(place), -1)
    return RegionGraph(code, code.encode(patterns), every, slopes[good], error[good])


def _clusters(proof: IntegerProof) -> list[Refutation]:
    """Refuted regions that hang together, with the number of true regions in their place."""
    if not proof.refuted:
        return []
    bad = list(proof.refuted)
    nodes = {key: len(bad) + i for i, key in enumerate(proof.true_regions)}
    pairs = [(i, nodes[key]) for i, region in enumerate(bad) if (key := proof.floats.key(region)) in nodes]
    pairs += [(nodes[key], nodes[o]) for key, true in proof.true_regions.items() for o in true.behind if o in nodes]
    place = {region: i for i, region in enumerate(bad)}
    pairs += [
        (place[a], place[b]) for a, b in proof.floats.subject.claim.wall_regions.tolist() if a in place and b in place
    ]
    group = components(len(bad) + len(nodes), np.array(pairs, dtype=np.int64).reshape(-1, 2))
    refutations = []
    for one in np.unique(group[: len(bad)]):
        members = [bad[i] for i in np.flatnonzero(group[: len(bad)] == one)]
        reasons = Counter(proof.refuted[region] for region in members)
        refutations.append(
            Refutation(
                reasons.most_common(1)[0][0], tuple(members), len(members), int((group[len(bad) :] == one).sum())
            )
        )
    return refutations


def _wrong_counts(
    proof: IntegerProof, counts: Counts, linear_ids: IntArray, decision: tuple[IntArray, IntArray] | None
) -> list[Refutation]:
    refutations = []
    for name, claimed in proof.floats.subject.part.by_layer.items():
        if counts.by_layer.get(name) != claimed:
            refutations.append(
                Refutation(f"activation regions after {name}", (), claimed, counts.by_layer.get(name, 0))
            )
    if proof.refuted:  # the numbers of regions mean nothing then
        return refutations
    if not _same_parts(linear_ids, counts.linear_ids):
        refutations.append(Refutation("linear regions", (), int(linear_ids.max()) + 1, counts.linear))
    if decision is not None:
        wrong = np.flatnonzero(decision[0] != counts.labels)
        if len(wrong):
            refutations.append(Refutation("labels", tuple(wrong.tolist()), len(wrong), 0))
        if not _same_parts(decision[1], counts.decision_ids):
            refutations.append(Refutation("decision regions", (), int(decision[1].max()) + 1, counts.decision))
    return refutations


def _same_parts(a: IntArray, b: IntArray) -> bool:
    """Whether two numberings divide the same things into the same parts."""
    one_in_other = []
    for mine, other in ((a, b), (b, a)):
        partner = np.empty(int(mine.max(initial=0)) + 1, dtype=np.int64)
        partner[mine] = other
        one_in_other.append(bool((partner[mine] == other).all()))
    return all(one_in_other)


# A certificate as JSON: the network in integers, the patterns of its regions and their walls, and the counts.
#
# ``tools/check_certificate.py`` verifies such a document with integers alone. Nothing in it is rounded: a list of
# numbers stands beside their common denominator.

FORMAT = "regionscope certificate 1"


def document(steps: Steps, slice: Slice, graph: RegionGraph, counts: dict[str, Any]) -> dict[str, Any]:
    """The evidence of a certificate, ready for ``json.dump``."""
    flat = np.concatenate([slice.basis.flatten(1).cpu().numpy(), slice.origin.reshape(1, -1).cpu().numpy()])
    border, below = border_of(slice)
    corners = slice.corners.cpu().numpy()
    walls = np.unique(np.sort(graph.pairs, 1), axis=0) if len(graph.pairs) else graph.pairs
    return {
        "format": FORMAT,
        "slice": {
            "inputs": _fractions(flat.T),
            "border": {"numbers": border.tolist(), "over": below},
            "corners": _fractions(np.concatenate([corners, np.ones((len(corners), 1))], 1)),
        },
        "network": {
            "input": steps.input_name,
            "output": steps.output_name,
            "layers": list(steps.layers),
            "decision": steps.has_decision,
            "steps": [_step(step) for step in steps.steps],
        },
        "regions": ["".join(chr(48 + piece) for piece in row) for row in graph.code.decode(graph.bits).tolist()],
        "walls": walls.tolist(),
        "counts": counts,
    }


def _fractions(numbers: FloatArray) -> dict[str, Any]:
    whole, below = as_integers(np.asarray(numbers, dtype=np.float64))
    return {"numbers": whole.tolist(), "over": below}


def _step(step: AnyStep) -> dict[str, Any]:
    if isinstance(step, AffineStep):
        terms = []
        for source, matrix in step.terms:
            sparse = matrix.sparse
            about = {"source": source, "starts": sparse.indptr.tolist(), "columns": sparse.indices.tolist()}
            terms.append(about | _fractions(sparse.data))
        return {"kind": "affine", "writes": step.writes, "terms": terms, "shift": _fractions(step.shift)}
    own = {"writes": step.writes, "source": step.source, "layer": step.layer}
    if isinstance(step, Largest):
        return {"kind": "largest", **own, "groups": step.groups.tolist()}
    return {
        "kind": "pieces",
        **own,
        "at": _fractions(np.array(step.at)),
        "slopes": _fractions(step.slopes),
        "shifts": _fractions(step.shifts),
        "divisor": step.divisor,
    }
