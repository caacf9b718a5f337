"""Damage partitions and certificates in random ways, and count how many damages are refuted.

``python tools/damage.py --count 1000`` draws small random networks, computes their decision regions, damages the result
in one of four ways, and certifies it. The exit code is 1 unless every damage is refuted. The report is written to
``docs/damage.json``.

- vertex moved: one vertex, by 0.01 to 0.3 of the extent of the slice in a random direction.
- cell merged: two regions become one, and the wall between them is removed.
- wall lost: one wall is removed; the regions stay.
- sign flipped: the label of one piece changes; and in the certificate one unit of one pattern is on another piece.

The last three are also done to the certificate itself, which ``check_certificate`` must then reject.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import check_certificate
import regionscope as rs
from fuzz.compare import slice_of
from fuzz.networks import FAMILIES, network
from regionscope.exact import DecisionRegions, Partition
from regionscope.exact.region_batch import Walls

KINDS = ("vertex moved", "cell merged", "wall lost", "sign flipped")


@dataclass(frozen=True)
class Outcome:
    """One damage: whether the partition was refuted, and whether the checker rejected the certificate.

    ``rejected`` is None for a moved vertex, because a certificate has no coordinates.
    """

    seed: int
    kind: str
    refuted: bool
    rejected: bool | None


def suitable(seed: int) -> tuple[DecisionRegions, rs.Certificate] | None:
    """Decision regions of the network with this seed and their certificate, if there is something to damage."""
    net = network(seed)
    found = rs.decision_regions(net.module(), slice_of(net.place))
    if not 2 <= len(found.partition) <= 200:
        return None
    certificate = found.certify()
    return (found, certificate) if certificate else None


def damage(found: DecisionRegions, certificate: rs.Certificate, kind: str, rng: np.random.Generator) -> Outcome:
    """Damage a partition, and its certificate, in one way."""
    assert certificate.document is not None
    part, labels, document = found.partition, found.piece_labels, certificate.document()
    inner = part.walls.inner
    wall = int(inner[rng.integers(len(inner))])
    if kind == "vertex moved":
        extent = float((part.vertices.amax(0) - part.vertices.amin(0)).max())
        step = rng.normal(size=part.dim)
        step *= rng.uniform(0.01, 0.3) * extent / np.linalg.norm(step)
        vertices = part.vertices.clone()
        vertices[rng.integers(len(vertices))] += torch.from_numpy(step)
        part = replace(part, vertices=vertices)
    elif kind == "cell merged":
        part = merged(part, wall)
        labels = labels[torch.arange(len(labels)) != part_of(found.partition, wall)[1]]
        document = merged_document(document, int(rng.integers(len(document["walls"]))))
    elif kind == "wall lost":
        part = replace(part, walls=without(part.walls, wall))
        document["walls"].pop(int(rng.integers(len(document["walls"]))))
    else:
        labels = labels.clone()
        labels[rng.integers(len(labels))] += 1
        flip(document, rng)
    regions = found.piece_regions[: len(labels)]
    refuted = bool(replace(found, partition=part, piece_labels=labels, piece_regions=regions).certify().refuted)
    return Outcome(0, kind, refuted, None if kind == "vertex moved" else is_rejected(document))


def is_rejected(document: dict[str, Any]) -> bool:
    """Whether the independent checker finds a fault."""
    try:
        check_certificate.check(document)
    except check_certificate.Fault:
        return True
    return False


def part_of(part: Partition, wall: int) -> tuple[int, int]:
    """The regions beside a wall, the lower number first."""
    a, b = part.walls.regions[wall].tolist()
    return min(a, b), max(a, b)


def without(walls: Walls, wall: int) -> Walls:
    """All walls but one."""
    keep = torch.arange(len(walls.layer)) != wall
    lengths = walls.offsets.diff()
    vertices = walls.vertices[keep.repeat_interleave(lengths)]
    offsets = torch.cat([walls.offsets[:1], lengths[keep].cumsum(0)])
    return Walls(vertices, offsets, walls.regions[keep], walls.layer[keep])


def merged(part: Partition, wall: int) -> Partition:
    """The partition with the regions beside a wall made one."""
    a, b = part_of(part, wall)
    loops = [row.tolist() for row in part.corners.tensor_split(part.offsets[1:-1])]
    ends = {*part.walls.vertices[part.walls.offsets[wall] : part.walls.offsets[wall + 1]].tolist()}
    if part.dim == 1:
        union = sorted({*loops[a], *loops[b]} - ends, key=lambda v: float(part.vertices[v, 0]))
    elif part.dim == 2:
        union = _from_end(loops[a], ends)[:-1] + _from_end(loops[b], ends)[:-1]
    else:
        union = sorted({*loops[a], *loops[b]})
    loops[a] = union
    del loops[b]
    sizes = part.sizes.clone()
    sizes[a] += sizes[b]
    walls = without(part.walls, wall)
    regions = torch.where(walls.regions == b, a, walls.regions)
    regions = torch.where(regions > b, regions - 1, regions)
    lengths = torch.tensor([len(loop) for loop in loops])
    return replace(
        part,
        corners=torch.tensor([v for loop in loops for v in loop]),
        offsets=torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]),
        sizes=sizes[torch.arange(len(sizes)) != b],
        walls=replace(walls, regions=regions),
    )


def _from_end(loop: list[int], ends: set[int]) -> list[int]:
    """The loop from the end of a side to its start."""
    start = next(i for i, v in enumerate(loop) if v in ends and loop[i - 1] in ends)
    return loop[start:] + loop[:start]


def merged_document(document: dict[str, Any], wall: int) -> dict[str, Any]:
    """The certificate with the second region beside a wall taken into the first."""
    a, b = document["walls"][wall]

    def new(i: int) -> int:
        return a if i == b else i - (i > b)

    walls = {tuple(sorted((new(x), new(y)))) for x, y in document["walls"]}
    kept = sorted(pair for pair in walls if pair[0] != pair[1])
    regions = [text for i, text in enumerate(document["regions"]) if i != b]
    return document | {"regions": regions, "walls": [list(pair) for pair in kept]}


def flip(document: dict[str, Any], rng: np.random.Generator) -> None:
    """Put one unit of one pattern on another piece."""
    regions = document["regions"]
    i = int(rng.integers(len(regions)))
    unit = int(rng.integers(len(regions[i])))
    piece = "1" if regions[i][unit] == "0" else chr(ord(regions[i][unit]) - 1)
    regions[i] = regions[i][:unit] + piece + regions[i][unit + 1 :]


def outcome(seed: int) -> Outcome | None:
    """Damage the network with this seed, if there is something to damage; the kinds take turns."""
    case = suitable(seed)
    if case is None:
        return None
    kind = KINDS[seed // len(FAMILIES) % len(KINDS)]
    return replace(damage(*case, kind, np.random.default_rng([seed, 1])), seed=seed)


def run(count: int, workers: int) -> Iterator[Outcome]:
    """The damages of the first suitable seeds."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        first = 0
        while count > 0:
            for one in pool.map(outcome, range(first, first + 200), chunksize=10):
                if one is not None and count > 0:
                    yield one
                    count -= 1
            first += 200


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="damage", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="number of damages")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    parser.add_argument("--report", type=Path, default=Path("docs/damage.json"), help="JSON file for the report")
    options = parser.parse_args()
    found: list[Outcome] = []
    for one in run(options.count, options.workers):
        found.append(one)
        if len(found) % 50 == 0:
            print(len(found), one, flush=True)
    kinds = {
        kind: {
            "damages": sum(one.kind == kind for one in found),
            "refuted": sum(one.kind == kind and one.refuted for one in found),
            "rejected_by_the_checker": sum(one.kind == kind and one.rejected is True for one in found),
        }
        for kind in KINDS
    }
    missed = [(one.seed, one.kind) for one in found if not one.refuted or one.rejected is False]
    report = {"damages": len(found), "missed": missed, "kinds": kinds, "last_seed": found[-1].seed}
    options.report.write_text(json.dumps(report | {"version": rs.__version__}, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=2))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
