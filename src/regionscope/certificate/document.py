"""A certificate as JSON: the network in integers, the patterns of its regions and their walls, and the counts.

``tools/check_certificate.py`` verifies such a document with integers alone. Nothing in it is rounded: a list of numbers
stands beside their common denominator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regionscope.certificate.integers import as_integers
from regionscope.certificate.steps import AffineStep, AnyStep, Largest, Steps
from regionscope.certificate.true_counts import RegionGraph
from regionscope.geometry import Slice
from regionscope.types import FloatArray

FORMAT = "regionscope certificate 1"


def document(steps: Steps, slice: Slice, graph: RegionGraph, counts: dict[str, Any]) -> dict[str, Any]:
    """The evidence of a certificate, ready for ``json.dump``."""
    flat = np.concatenate([slice.basis.flatten(1).cpu().numpy(), slice.origin.reshape(1, -1).cpu().numpy()])
    normals, bounds = (part.cpu().numpy() for part in slice.halfspaces)
    corners = slice.corners.cpu().numpy()
    walls = np.unique(np.sort(graph.pairs, 1), axis=0) if len(graph.pairs) else graph.pairs
    return {
        "format": FORMAT,
        "slice": {
            "inputs": _fractions(flat.T),
            "border": _fractions(np.concatenate([-normals, bounds[:, None]], 1)),
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
