"""Exact regions on segments of a stored run beside the 200-point grid, a line of JSON for each segment as it is done.

python examples/exact_segments.py RUN --data DIR --device cuda --dtype float32 --segments 20 --out segments.jsonl

Segments join random pairs of training images. For each: linear pieces after every nonlinearity, exact decision regions,
what a grid of 200 points sees, seconds, and the floor (a forward pass over the final vertices, timed on a sample).
A segment that is already in the file is not done again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import regionscope as rs
from regionscope.lab.store import RunFolder

_SAMPLE = 1 << 15  # vertices on which the floor is timed
_BATCH = 2048


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    parser.add_argument("--segments", type=int, default=4)
    parser.add_argument("--share", type=float, default=1.0, help="the part of each segment that is looked at")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("segments.jsonl"))
    chosen = parser.parse_args()
    run = RunFolder.open(chosen.run)
    inputs = run.split(chosen.data).train.inputs
    dtype = getattr(torch, chosen.dtype)
    model = run.model_at(run.checkpoints()[-1]).to(chosen.device)
    generator = torch.Generator().manual_seed(chosen.seed)
    pairs = torch.stack([torch.randperm(len(inputs), generator=generator)[:2] for _ in range(chosen.segments)])
    done = {(row["dtype"], *row["pair"]) for row in read(chosen.out)}
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False  # else float32 is not float32
    for pair in pairs.tolist():
        if (chosen.dtype, *pair) in done:
            continue
        segment = rs.Segment(inputs[pair[0]], inputs[pair[1]]).extended(0.0, chosen.share)
        row = {"pair": pair, "dtype": chosen.dtype, **measure(model, segment, dtype)}
        with chosen.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(
            f"{pair}: {row['pieces']:,} pieces, {row['decision_regions']} decision regions, grid {row['grid_200']}, "
            f"{row['seconds']:.1f} s = {row['seconds'] / row['floor']:.2f} floors, {row['gib']:.1f} GiB",
            flush=True,
        )


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of an earlier start."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(model: nn.Module, segment: rs.Segment, dtype: torch.dtype) -> dict[str, Any]:
    """Everything about one segment."""
    device = next(model.parameters()).device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds, found = timed(lambda: rs.decision_regions(model, segment, dtype=dtype), device)
    part = found.partition
    cuts = part.vertices[:, 0].sort().values.diff()
    coords = torch.linspace(*segment.corners[:, 0].tolist(), 200, dtype=torch.float64)[:, None]
    with torch.no_grad():
        labels = model.double()(segment.embed(coords).to(device)).argmax(1)
        model.float()
    return {
        "pieces": list(part.by_layer.values())[-1],
        "by_layer": dict(part.by_layer),
        "decision_regions": found.count,
        "grid_200": rs.count_components(labels.cpu()),
        "snapped": part.stats.snapped,
        "shortest": float(cuts.min()),
        "median": float(cuts.median()),
        "seconds": seconds,
        "floor": floor(model, segment, part.vertices, dtype),
        "gib": torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0,
    }


def floor(model: nn.Module, segment: rs.Segment, vertices: torch.Tensor, dtype: torch.dtype) -> float:
    """Seconds of one forward pass over all vertices, from a sample of them."""
    device = vertices.device
    sample = vertices[torch.linspace(0, len(vertices) - 1, min(_SAMPLE, len(vertices)), device=device).long()]
    model.to(dtype)

    def forward() -> None:
        with torch.no_grad():
            for rows in sample.split(_BATCH):
                model(segment.embed(rows, dtype=dtype))

    forward()
    seconds, _ = timed(forward, device)
    model.float()
    return seconds * len(vertices) / len(sample)


def timed(work: Any, device: torch.device) -> tuple[float, Any]:
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main()
