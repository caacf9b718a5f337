"""Rebuild tests/twins/known_answers.json: ``PYTHONPATH=tests python tools/make_known_answers.py`` (about a minute).

Every count comes from the slow reference and is verified: closed forms agree, sizes add up to the slice, and interior
points of different regions have different activation patterns.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regionscope.geometry import Slice
from regionscope.network import Program, trace
from twins.known_answers import build_layers, build_slice, weights_checksum
from twins.reference import ReferencePartition, reference_regions

ANSWERS = Path(__file__).parent.parent / "tests" / "twins" / "known_answers.json"
INLINE_WEIGHTS = 200  # networks with at most this many parameters are written out

Layers = list[list[Any]]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is to be counted. ``weights``: one (weight, bias) for each layer that has them; else ``seed``."""

    name: str
    layers: Layers
    slice: dict[str, Any]
    seed: int | None = None
    weights: Sequence[tuple[list[Any], list[float]]] | None = None
    closed_form: str = ""
    linear: int | None = None


def main() -> None:
    """Count, verify and write all entries."""
    torch.set_num_threads(1)
    entries = [*closed_forms(), *seeded_networks()]
    ANSWERS.write_text(_as_json([count(entry) for entry in entries]), encoding="utf-8")


def count(entry: Entry) -> dict[str, Any]:
    """The finished record of one entry."""
    network = build_layers(entry.layers, entry.seed)
    if entry.weights is not None:
        network = network.double()
        with torch.no_grad():
            layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
            for layer, (weight, bias) in zip(layers, entry.weights, strict=True):
                layer.weight.copy_(torch.tensor(weight, dtype=torch.float64))
                layer.bias.copy_(torch.tensor(bias, dtype=torch.float64))
    small = sum(p.numel() for p in network.parameters()) <= INLINE_WEIGHTS
    slice = build_slice(entry.slice)
    program = trace(network, slice.input_shape)
    partition, decision = reference_regions(program, slice)
    verify(entry, program, slice, partition)
    return {
        "name": entry.name,
        "layers": entry.layers,
        "seed": entry.seed,
        "weights": {k: v.tolist() for k, v in network.state_dict().items()} if small else None,
        "dtype": "float32" if entry.weights is None else "float64",
        "weights_sha256": weights_checksum(network),
        "slice": entry.slice,
        "closed_form": entry.closed_form,
        "n_activation_regions": partition.n_activation_regions,
        "n_linear_regions": partition.n_linear_regions,
        "n_decision_regions": decision.count,
        "by_layer": partition.by_layer,
    }


def verify(entry: Entry, program: Program, slice: Slice, partition: ReferencePartition) -> None:
    """Raise when a count cannot be trusted."""
    if not math.isclose(float(partition.sizes.sum()), slice.size, rel_tol=1e-9):
        raise AssertionError(f"{entry.name}: the sizes do not add up to the slice")
    values = program.begin(slice.embed(torch.from_numpy(partition.interior)))
    patterns = [torch.zeros(len(partition.interior), 0, dtype=torch.int16)]
    for fold in program.folds:
        patterns.append(fold.pattern(values).to(torch.int16))
        values = fold.advance(values)
    if len(torch.unique(torch.cat(patterns, 1), dim=0)) != partition.n_activation_regions:
        raise AssertionError(f"{entry.name}: two regions have the same activation pattern")
    if entry.linear not in (None, partition.n_linear_regions):
        raise AssertionError(
            f"{entry.name}: {partition.n_linear_regions} linear regions, {entry.linear} by closed form"
        )


def box(k: int, radius: float = 1.0, center: float = 0.0) -> dict[str, Any]:
    """The cube [center - radius, center + radius]^k."""
    return {"kind": "box", "center": [center] * k, "directions": torch.eye(k).tolist(), "radius": [radius] * k}


def spread(n: int, shape: tuple[int, ...], size: float) -> list[Any]:
    """n fixed points that need no random stream: size * sin(1), size * sin(2), ... rounded to 1/1024."""
    values = torch.arange(1, n * math.prod(shape) + 1, dtype=torch.float64).sin() * size
    points: list[Any] = ((values * 1024).round() / 1024).reshape(n, *shape).tolist()
    return points


def closed_forms() -> list[Entry]:
    """Networks whose number of linear regions is known by a formula."""
    segment = {"kind": "segment", "points": [[-1.0], [1.0]]}
    hinge: Layers = [["Linear", 1, 2], ["ReLU"], ["Linear", 2, 1]]
    pair = ([[1.0], [-1.0]], [0.0, 0.0])
    found = [
        Entry(name="|x|", layers=hinge, weights=[pair, ([[1.0, 1.0]], [0.0])], slice=segment,
              closed_form="2", linear=2),
        Entry(name="x = relu(x) - relu(-x)", layers=hinge, weights=[pair, ([[1.0, -1.0]], [0.0])], slice=segment,
              closed_form="1", linear=1),
    ]  # fmt: skip
    for depth in (1, 2, 3, 5, 8):
        layers = hinge * depth
        tent = [([[1.0], [1.0]], [0.0, -0.5]), ([[2.0, -4.0]], [0.0])]
        slice = {"kind": "segment", "points": [[0.0], [1.0]]}
        found.append(Entry(name=f"sawtooth of depth {depth}", layers=layers, weights=tent * depth, slice=slice,
                           closed_form="2^L", linear=2**depth))  # fmt: skip
    for n in (2, 4, 7):
        angles = [math.pi * (i + 0.3 * math.sin(i + 1)) / n for i in range(n)]
        rows = [[math.cos(a), math.sin(a)] for a in angles]
        head = ([[math.sqrt(i + 2) for i in range(n)]], [0.5])
        layers = mlp(2, n, 1)
        found += [
            Entry(name=f"{n} lines in general position", layers=layers, weights=[(rows, [-1.0] * n), head],
                  slice=box(2, 20.0), closed_form="1 + n + C(n, 2)", linear=1 + n + math.comb(n, 2)),
            Entry(name=f"{n} lines through one point", layers=layers, weights=[(rows, [0.0] * n), head], slice=box(2),
                  closed_form="2 n", linear=2 * n),
        ]  # fmt: skip
    return found


def mlp(*widths: int, act: Sequence[Any] = ("ReLU",), bias: bool = True) -> Layers:
    """Linear layers with an activation between them."""
    layers: Layers = []
    for a, b in itertools.pairwise(widths):
        layers += [["Linear", a, b] if bias else ["Linear", a, b, False], list(act)]
    return layers[:-1]


def seeded_networks() -> list[Entry]:
    """Networks of default initialisation."""
    found = []
    for width, seed in itertools.product((16, 32, 64), (0, 5)):
        found.append((f"2-[{width}]*3-2", mlp(2, width, width, width, 2), seed, box(2)))
    for seed in (1, 2, 3):
        found.append(("2-8-8-3", mlp(2, 8, 8, 3), seed, box(2, 3.0)))
        found.append(("2-12-1, single logit", mlp(2, 12, 1), seed, box(2, 2.0)))
        found.append(("zero bias 2-10-10-4", mlp(2, 10, 10, 4, bias=False), seed, box(2)))
        found.append(("leaky 2-8-8-3", mlp(2, 8, 8, 3, act=("LeakyReLU", 0.1)), seed, box(2, 3.0)))
        found.append(("hardtanh 2-6-6-3", mlp(2, 6, 6, 3, act=("Hardtanh", -0.25, 0.5)), seed, box(2, 3.0)))
        found.append(
            ("segment 20-32-32-3", mlp(20, 32, 32, 3), seed, {"kind": "segment", "points": spread(2, (20,), 4.0)})
        )
        found.append(
            ("triangle 20-16-16-4", mlp(20, 16, 16, 4), seed, {"kind": "simplex", "points": spread(3, (20,), 4.0)})
        )
    for seed in (1, 2):
        body: Layers = [["Linear", 8, 8], ["ReLU"], ["Linear", 8, 8], ["ReLU"], ["Linear", 8, 8]]
        residual: Layers = [["Linear", 2, 8], ["ReLU"], ["Residual", body], ["ReLU"], ["Linear", 8, 3]]
        found.append(("residual 2-8-3", residual, seed, box(2, 3.0)))
        image = {"kind": "simplex", "points": spread(3, (1, 6, 6), 3.0)}
        line = {"kind": "segment", "points": spread(2, (1, 6, 6), 3.0)}
        conv: Layers = [["Conv2d", 1, 3, 3], ["ReLU"], ["MaxPool2d", 2], ["Flatten"], ["Linear", 12, 3]]
        found.append(("CNN with max pool, triangle", conv, seed, image))
        found.append(("CNN with max pool, segment", conv, seed, line))
        pool: Layers = [["MaxPool2d", 3, 2, 1], ["Flatten"], ["Linear", 9, 4], ["ReLU"], ["Linear", 4, 2]]
        found.append(("padded max pool first, triangle", pool, seed, image))
        found.append(("cube 3-6-6-2", mlp(3, 6, 6, 2), seed, box(3, 2.0)))
    return [
        Entry(name=f"{name}, seed {seed}", layers=layers, seed=seed, slice=slice) for name, layers, seed, slice in found
    ]


def _as_json(records: list[dict[str, Any]]) -> str:
    """One key of an entry on each line."""
    entries = [",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in r.items()) for r in records]
    body = ",\n".join(f"  {{\n{entry}\n  }}" for entry in entries)
    return f'{{\n "format": 1,\n "known_answers": [\n{body}\n ]\n}}\n'


if __name__ == "__main__":
    main()
