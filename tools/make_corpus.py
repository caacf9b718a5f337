"""Write the corpus: small networks with slices and certified counts, one JSON file each.

``python tools/make_corpus.py`` writes ``corpus/``. A network is drawn from its seed by ``fuzz.networks`` (or, for the
larger MLPs, here). It is taken if its certificate is complete, the independent checker proves the same counts, and, for
small ones, the exact arithmetic of ``fuzz.truth`` agrees. Otherwise the seed is skipped, and listed in the index.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import check_certificate
import regionscope as rs
from fuzz.compare import slice_of
from fuzz.networks import FAMILIES, Network, network, ordinary
from fuzz.truth import Place, truth_of

FORMAT = "regionscope corpus 1"
DIMS = {1: 6, 2: 12, 3: 5}  # networks of each family by dimension of the slice
LARGER = [(8, 8), (12, 12), (16, 16), (8, 8, 8), (12, 12, 12), (16, 16, 16), (8, 8, 8, 8), (24, 24)]
RINGS = 4  # networks with a class around another one, in place of as many of the family "abs" on planes
MOST = 600  # pieces of a network


def larger(seed: int) -> Network:
    """A plain ReLU network of two inputs on a square, with float32 weights."""
    widths = [2, *LARGER[seed % len(LARGER)], 3]
    rng = np.random.default_rng([seed, 2])
    layers: list[Any] = []
    weights = {}
    for i, (a, b) in enumerate(pairwise(widths)):
        layers += [["Linear", a, b], ["ReLU"]]
        for name, shape in ((f"{2 * i}.weight", (b, a)), (f"{2 * i}.bias", (b,))):
            weights[name] = ordinary(rng, shape, a).astype(np.float32).astype(np.float64)
    place = Place("box", np.zeros(2), np.eye(2), (1.0, 1.0))
    return Network(seed, "MLP", "ordinary", "float32", layers[:-1], weights, place)


def ring(seed: int) -> Network:
    """A convex polygon of class 0 inside class 1, which has a hole there: r against a sum of |w x + b|."""
    rng, n = np.random.default_rng([seed, 3]), 3 + seed
    weights = {
        "0.weight": ordinary(rng, (n, 2), 2),
        "0.bias": 0.1 * ordinary(rng, (n,), 2),
        "2.weight": np.stack([np.zeros(n), 1 + np.abs(ordinary(rng, (n,), n))]),
        "2.bias": np.zeros(2),
    }
    weights = {name: drawn.astype(np.float32).astype(np.float64) for name, drawn in weights.items()}
    at_border = [weights["2.weight"][1] @ np.abs(weights["0.weight"] @ c + weights["0.bias"]) for c in _border()]
    weights["2.bias"][0] = np.float32(0.8 * min(at_border))
    layers = [["Linear", 2, n], ["Abs"], ["Linear", n, 2]]
    return Network(
        seed, "abs", "ordinary", "float32", layers, weights, Place("box", np.zeros(2), np.eye(2), (1.0, 1.0))
    )


def _border() -> list[np.ndarray]:
    """Points on the border of the square."""
    return [np.array(c) for t in np.linspace(-1, 1, 41) for c in ((t, 1.0), (t, -1.0), (1.0, t), (-1.0, t))]


def case_of(net: Network, name: str, *, with_truth: bool) -> dict[str, Any] | None:
    """The file of a network, or None if it is not suitable or not certified."""
    module, place = net.module(), slice_of(net.place)
    part, found = rs.linear_regions(module, place), rs.decision_regions(module, place)
    if not 2 <= len(found.partition) <= MOST:
        return None
    certificate = found.certify(max_recomputed=MOST)
    if not (certificate and part.certify(max_recomputed=MOST)):
        return None
    assert certificate.document is not None
    document = json.loads(json.dumps(certificate.document()))
    counts = check_certificate.check(document)
    if counts["linear"] != part.n_linear_regions:
        raise AssertionError(f"{name}: the decision changes the linear regions")
    if with_truth:
        truth = truth_of(net.layers, net.weights, net.place)
        same = (list(counts["by_layer"].values()), counts["linear"], counts["decision"])
        if same != (truth.by_layer, truth.linear, len(truth.labels)):
            raise AssertionError(f"{name}: the certificate says {same}, exact arithmetic says otherwise")
    numbers: dict[str, Any] = {
        "activation_by_layer": list(counts["by_layer"].values()),
        "activation": counts["activation"],
        "linear": counts["linear"],
        "decision": counts["decision"],
        "labels": sorted(found.labels.tolist()),
    }
    if net.dim == 2:
        shapes = {str(label): one for label, one in sorted(found.topology().items())}
        numbers["topology"] = {k: {"components": s.components, "holes": s.holes} for k, s in shapes.items()}
    return {
        "format": FORMAT,
        "name": name,
        "family": net.family,
        "weights_kind": net.weights_kind,
        "seed": net.seed,
        "dim": net.dim,
        "layers": net.layers,
        "weights": {key: value.tolist() for key, value in net.weights.items()},
        "slice": {
            "kind": net.place.kind,
            "origin": net.place.origin.tolist(),
            "basis": net.place.basis.tolist(),
            "radius": list(net.place.radius),
        },
        "counts": numbers,
        "certificate": document,
    }


def generate(count: int) -> tuple[list[dict[str, Any]], list[int]]:
    """The cases in the order of their seeds, and the seeds that gave none although their size fits."""
    taken: Counter[tuple[str, int]] = Counter()
    cases, skipped = [], []
    for seed in range(len(LARGER) * 2):
        case = case_of(larger(seed), f"larger-{seed:04d}", with_truth=False)
        if case is not None:
            cases.append(case)
    for seed in range(RINGS):
        case = case_of(ring(seed), f"ring-2d-{seed:04d}", with_truth=True)
        if case is not None:
            taken["abs", 2] += 1
            cases.append(case)
    seed = 0
    while len(cases) < count:
        net = network(seed)
        slot = (net.family, net.dim)
        if taken[slot] < DIMS[net.dim]:
            name = f"{net.family.lower().replace('-', '')}-{net.dim}d-{seed:04d}"
            case = case_of(net, name, with_truth=True)
            if case is None:
                skipped.append(seed)
            else:
                taken[slot] += 1
                cases.append(case)
        seed += 1
        if seed > 20_000:
            raise AssertionError(f"only {len(cases)} networks found; families take {len(FAMILIES)} turns")
    return cases, skipped


def main() -> int:
    """Parse the command line and write the files."""
    parser = argparse.ArgumentParser(prog="make_corpus", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--count", type=int, default=200, help="number of networks")
    parser.add_argument("--folder", type=Path, default=Path("corpus"), help="folder to write")
    options = parser.parse_args()
    start = time.perf_counter()
    cases, skipped = generate(options.count)
    options.folder.mkdir(exist_ok=True)
    for case in cases:
        text = json.dumps(case, separators=(",", ":")) + "\n"
        (options.folder / f"{case['name']}.json").write_text(text, encoding="utf-8")
    print(f"{len(cases)} networks in {time.perf_counter() - start:.0f} s; skipped seeds: {skipped}")
    print(Counter((case["family"], case["dim"]) for case in cases))
    return 0


if __name__ == "__main__":
    sys.exit(main())
