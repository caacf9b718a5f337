"""The instruments of sequence models against their floors, on the zoo's GPT and ViT with random weights.

python benchmarks/bench_transformers.py                # table on screen, JSON in benchmarks/results/
python benchmarks/bench_transformers.py --device cuda  # larger models, more points

Floors: for local complexity, region counts and spline features one forward pass of the model over the same points,
ready made, in the best of a few batches; for exact regions of an MLP block the block over the final vertices. Each
round runs the floor and then the instrument. The ratio is the median of the rounds, since the speed of a machine
changes from minute to minute. On a CPU the times are processor seconds in one thread, so that other work on the machine
counts as little as possible.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.lab.zoo import transformer as zoo
from regionscope.network import full_precision
from results import write
from timing import busy_seconds

LIMIT = 1.3  # of local complexity


@dataclass(frozen=True)
class Sizes:
    """Of the models and of the points: small on a CPU."""

    width: int
    depth: int
    heads: int
    tokens: int
    vocabulary: int
    points: tuple[int, ...]  # of local complexity: few points show the fixed cost of a call
    slices: int
    prompts: int
    rounds: int  # for the fewest points, fewer for more


CPU = Sizes(
    width=128, depth=4, heads=4, tokens=32, vocabulary=256, points=(32, 64, 128), slices=2, prompts=128, rounds=9
)
GPU = Sizes(  # of GPT-2 and ViT-Base
    width=768, depth=12, heads=12, tokens=64, vocabulary=50257, points=(32, 64, 256), slices=8, prompts=256, rounds=9
)


def gpt(sizes: Sizes) -> nn.Module:
    return zoo.gpt(
        classes=sizes.vocabulary, input_shape=(sizes.tokens,), depth=sizes.depth, width=sizes.width,
        heads=sizes.heads, activation="relu",
    )  # fmt: skip


def vit(sizes: Sizes) -> nn.Module:
    return zoo.vit(
        classes=10, input_shape=(3, 32, 32), depth=sizes.depth, width=sizes.width, heads=sizes.heads
    )  # fmt: skip


def forward(model: nn.Module, inputs: Tensor, n: int, batches: tuple[int, ...]) -> Any:
    """A function that runs the model over n inputs, in the fastest of the batches."""

    def over(rows: int, batch: int) -> None:
        with torch.no_grad(), full_precision():
            for start in range(0, rows, batch):
                size = min(batch, rows - start)
                model(inputs[torch.arange(size, device=inputs.device) % len(inputs)])

    some = min(n, max(batches))

    def least(batch: int) -> float:
        return min(busy_seconds(lambda: over(some, batch), inputs.device) for _ in range(4))

    best = min(batches, key=least)
    return lambda: over(n, best)


def measure(device: torch.device, sizes: Sizes) -> list[dict[str, object]]:
    torch.manual_seed(0)
    batches = (32, 128) if device.type == "cpu" else (64, 256, 1024)
    text, image = (build(sizes).eval().to(device) for build in (gpt, vit))
    ids = torch.randint(1, sizes.vocabulary, (sizes.prompts, sizes.tokens), device=device)
    images = torch.rand(max(sizes.points), 3, 32, 32, device=device)
    if len(ids.unique(dim=0)) < max(sizes.points):
        raise ValueError(f"Expected at least {max(sizes.points)} different prompts, got {len(ids.unique(dim=0))}.")
    grid = 200
    rows: list[dict[str, object]] = []

    def row(
        network: str, instrument: str, n: int, work: Callable[[], object], floor: Callable[[], object],
        rounds: int = sizes.rounds,
    ) -> None:  # fmt: skip
        busy_seconds(floor, device), busy_seconds(work, device)  # to warm up
        bottom, seconds = zip(
            *((busy_seconds(floor, device), busy_seconds(work, device)) for _ in range(rounds)), strict=True
        )
        ratios = [own / least for own, least in zip(seconds, bottom, strict=True)]
        rows.append({
            "network": network, "instrument": instrument, "forward_passes": n, "rounds": rounds,
            "seconds": statistics.median(seconds), "floor": statistics.median(bottom),
            "ratio": statistics.median(ratios), "ratio_least": min(ratios), "ratio_most": max(ratios),
        })  # fmt: skip
        times = f"{statistics.median(seconds):9.3f} {statistics.median(bottom):9.3f}"
        spread = f"{statistics.median(ratios):6.2f} {min(ratios):6.2f} {max(ratios):6.2f}"
        print(f"{network:5} {instrument:34} {n:8d} {times} {spread}", flush=True)

    def on_text(n: int) -> Any:
        return forward(text, ids, n, batches)

    def on_images(n: int) -> Any:
        return forward(image, images, n, batches)

    for points in sizes.points:
        n = 50 * points
        rounds = max(3, sizes.rounds * sizes.points[0] // points | 1)  # an odd number
        plain = partial(rs.local_complexity, text, ids[:points], radius=0.1)
        row("GPT", "local_complexity", n, plain, on_text(n), rounds)
        more = partial(rs.local_complexity, text, ids[:points], radius=0.1, attention=True, norms=True)
        row("GPT", "local_complexity, attention, norms", n, more, on_text(n), rounds)
        of_images = partial(rs.local_complexity, image, images[:points], radius=0.5)
        row("ViT", "local_complexity", n, of_images, on_images(n), rounds)
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
    print(
        f"{'model':5} {'instrument':34} {'passes':>8} {'seconds':>9} {'floor':>9} {'ratio':>6} {'least':>6} {'most':>6}"
    )
    rows = measure(device, sizes)
    print(f"aim: local_complexity at most {LIMIT} of its floor")
    clock = "seconds" if device.type == "cuda" else "processor seconds"
    report = {"clock": clock, "sizes": vars(sizes), "rows": rows}
    print(f"wrote {write(f'transformers_{device.type}', report, device)}")


if __name__ == "__main__":
    main()
