"""The instruments of sequence models against their floors, on the zoo's GPT and ViT with random weights.

python benchmarks/bench_transformers.py                # table on screen, JSON in benchmarks/results/
python benchmarks/bench_transformers.py --device cuda  # larger models, more points

Floors: for local complexity, region counts and spline features one forward pass of the model over the same points,
ready made, in the best of a few batches; for exact regions of an MLP block the block over the final vertices. On a CPU
the times are processor seconds in one thread, so that other work on the machine counts as little as possible.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.lab.zoo import transformer as zoo
from regionscope.network import full_precision

RESULTS = Path(__file__).parent / "results"
LIMIT = 1.3  # of local complexity


@dataclass(frozen=True)
class Sizes:
    """Of the models and of the points: small on a CPU."""

    width: int
    depth: int
    tokens: int
    vocabulary: int
    points: tuple[int, ...]  # of local complexity: few points show the fixed cost of a call
    slices: int
    prompts: int
    repeats: int


CPU = Sizes(width=128, depth=4, tokens=32, vocabulary=256, points=(32, 128), slices=2, prompts=128, repeats=5)
GPU = Sizes(width=768, depth=12, tokens=64, vocabulary=50257, points=(32, 64, 256), slices=8, prompts=256, repeats=5)


def gpt(sizes: Sizes) -> nn.Module:
    return zoo.gpt(
        classes=sizes.vocabulary, input_shape=(sizes.tokens,), depth=sizes.depth, width=sizes.width,
        heads=sizes.width // 32, activation="relu",
    )  # fmt: skip


def vit(sizes: Sizes) -> nn.Module:
    return zoo.vit(
        classes=10, input_shape=(3, 32, 32), depth=sizes.depth, width=sizes.width, heads=sizes.width // 32
    )  # fmt: skip


class Clock:
    """Runs each kind of work in turn, several times, and keeps the least time of each."""

    def __init__(self, device: torch.device, repeats: int) -> None:
        self.device, self.repeats = device, repeats

    def once(self, work: Callable[[], object]) -> float:
        now = time.perf_counter if self.device.type == "cuda" else time.process_time
        start = now()
        work()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return now() - start

    def __call__(self, *works: Callable[[], object]) -> list[float]:
        for work in works:
            work()
        taken = [[self.once(work) for work in works] for _ in range(self.repeats)]
        return [min(column) for column in zip(*taken, strict=True)]


def forward(model: nn.Module, inputs: Tensor, n: int, batches: tuple[int, ...], clock: Clock) -> Any:
    """A function that runs the model over n inputs, in the fastest of the batches."""

    def over(rows: int, batch: int) -> None:
        with torch.no_grad(), full_precision():
            for start in range(0, rows, batch):
                size = min(batch, rows - start)
                model(inputs[torch.arange(size, device=inputs.device) % len(inputs)])

    some = min(n, max(batches))
    best = min(batches, key=lambda batch: clock(lambda: over(some, batch))[0])
    return lambda: over(n, best)


def measure(device: torch.device, sizes: Sizes) -> list[dict[str, object]]:
    torch.manual_seed(0)
    clock, batches = Clock(device, sizes.repeats), (32, 128) if device.type == "cpu" else (64, 256, 1024)
    text, image = (build(sizes).eval().to(device) for build in (gpt, vit))
    ids = torch.randint(1, sizes.vocabulary, (sizes.prompts, sizes.tokens), device=device)
    images = torch.rand(max(sizes.points), 3, 32, 32, device=device)
    if len(ids.unique(dim=0)) < max(sizes.points):
        raise ValueError(f"Expected at least {max(sizes.points)} different prompts, got {len(ids.unique(dim=0))}.")
    grid = 200
    rows: list[dict[str, object]] = []

    def row(network: str, instrument: str, n: int, work: Callable[[], object], floor: Callable[[], object]) -> None:
        seconds, bottom = clock(work, floor)
        rows.append({
            "network": network, "instrument": instrument, "forward_passes": n, "seconds": seconds, "floor": bottom,
            "ratio": seconds / bottom,
        })  # fmt: skip
        print(f"{network:5} {instrument:34} {n:8d} {seconds:9.3f} {bottom:9.3f} {seconds / bottom:6.2f}", flush=True)

    def on_text(n: int) -> Any:
        return forward(text, ids, n, batches, clock)

    def on_images(n: int) -> Any:
        return forward(image, images, n, batches, clock)

    for points in sizes.points:
        n = 50 * points
        clock.repeats = max(2, sizes.repeats * sizes.points[0] // points)
        row("GPT", "local_complexity", n, partial(rs.local_complexity, text, ids[:points], radius=0.1), on_text(n))
        more = partial(rs.local_complexity, text, ids[:points], radius=0.1, attention=True, norms=True)
        row("GPT", "local_complexity, attention, norms", n, more, on_text(n))
        of_images = partial(rs.local_complexity, image, images[:points], radius=0.5)
        row("ViT", "local_complexity", n, of_images, on_images(n))
    clock.repeats = sizes.repeats
    n = sizes.slices * grid
    row("GPT", "region_count, next token", n, lambda: rs.region_count(text, ids, slices=sizes.slices), on_text(n))
    row("GPT", "spline_features", len(ids), lambda: rs.spline_features(text, ids), on_text(len(ids)))
    found = rs.block(text, "layers.0.mlp", ids[0])
    plane = rs.Box(found.activation, torch.eye(sizes.width, device=device)[:2], 1.0)
    part = rs.linear_regions(found.program, plane)
    inputs = plane.embed(part.vertices)
    with torch.no_grad():
        row(
            "GPT", "block, exact plane", len(inputs),
            lambda: rs.linear_regions(found.program, plane), lambda: found.program(inputs),
        )  # fmt: skip
    row(
        "ViT", "region_count", n,
        lambda: rs.region_count(image, images, slices=sizes.slices), on_images(n),
    )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="time the instruments of transformers against their floors")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    sizes = GPU if device.type == "cuda" else CPU
    print(f"{'model':5} {'instrument':34} {'passes':>8} {'seconds':>9} {'floor':>9} {'ratio':>6}")
    rows = measure(device, sizes)
    print(f"aim: local_complexity at most {LIMIT} of its floor")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"transformers_{device.type}.json"
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu, one thread, processor seconds"
    about = {"device": where, "torch": torch.__version__, "sizes": vars(sizes)}
    path.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
