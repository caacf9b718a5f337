"""Proven maps of networks with smooth activations, against one forward pass of the cells' corners.

python benchmarks/bench_smooth.py                # all networks; JSON in docs/benchmarks/, and the figure; see table.py
python benchmarks/bench_smooth.py 128            # the networks whose name holds the word
python benchmarks/bench_smooth.py --plain        # errors without signs, for comparison; stores nothing
python benchmarks/bench_smooth.py --figure       # the figure from the stored rows
python benchmarks/bench_smooth.py --lines 200    # regions that 200 points on a line miss, on 200 lines
python benchmarks/bench_smooth.py --deep         # transformers between two embeddings, and deep CNNs

Networks are trained on the digits of scikit-learn (those of 28 x 28 pixels are enlarged digits). The plane goes through
three images of different classes, the segment joins two. Seconds are those of one thread of the process.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regionscope as rs
from regionscope.plot import style
from regionscope_lab.data.toy import digits
from regionscope_lab.zoo.transformer import vit
from results import surroundings
from table import load, store

FIGURE = Path(__file__).parents[1] / "docs" / "images" / "smooth_frontier.png"
DEEPEST = 24  # segments are shortened by 2^-24 at most
SHARES = (0.3, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001)


@dataclass(frozen=True)
class Case:
    """A network, the size of its images, and the undecided share that is asked for.

    flat: whether it takes vectors. is_random: it has random weights (Kaiming, normal) in place of training, and its
        slices are six units wide around 0, where it has many regions.
    """

    name: str
    build: Callable[[], nn.Module]
    size: int
    undecided: float
    flat: bool = True
    is_random: bool = False


def dense(widths: list[int], activation: type[nn.Module]) -> nn.Module:
    layers: list[nn.Module] = []
    for n, m in pairwise(widths[:-1]):
        layers += [nn.Linear(n, m), activation()]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.GELU(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(256, 120), nn.GELU(), nn.Linear(120, 84), nn.GELU(), nn.Linear(84, 10),
    )  # fmt: skip


CASES = [
    Case("64-[128]^3-10 GELU", lambda: dense([64, *[128] * 3, 10], nn.GELU), 8, 0.01),
    Case("64-[128]^6-10 GELU", lambda: dense([64, *[128] * 6, 10], nn.GELU), 8, 0.01),
    Case("64-[128]^6-10 SiLU", lambda: dense([64, *[128] * 6, 10], nn.SiLU), 8, 0.01),
    Case("LeNet 28x28 GELU", lenet, 28, 0.02, flat=False),
    Case("64-[256]^8-10 GELU", lambda: dense([64, *[256] * 8, 10], nn.GELU), 8, 0.01),
    Case("64-[128]^6-10 GELU, random", lambda: dense([64, *[128] * 6, 10], nn.GELU), 8, 0.01, is_random=True),
]


def trained(case: Case) -> tuple[nn.Module, Tensor, Tensor]:
    """The network after training, all images, and the first image of each class."""
    data = digits()
    images = data.inputs if case.size == 8 else F.interpolate(data.inputs, size=case.size, mode="bilinear")
    x = images.flatten(1) if case.flat else images
    torch.manual_seed(0)
    model = case.build()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for layer in model.modules():
        if case.is_random and isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.normal_(layer.bias, std=0.1)
    for _ in range(0 if case.is_random else 15 if case.flat else 4):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x[batch]), data.labels[batch]).backward()
            optimizer.step()
    firsts = torch.stack([(data.labels == label).nonzero()[0, 0] for label in range(10)])
    return model.eval(), x, x[firsts]


def clock(device: str) -> float:
    """Seconds of the processor; on a GPU, of the clock on the wall."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def floor(model: nn.Module, slice: rs.Slice, corners: Tensor, device: str) -> float:
    """Seconds of one float64 forward pass of the corners."""
    with torch.no_grad():
        start = clock(device)
        for part in slice.embed(corners).split(512):
            model(part.to(device))
        return clock(device) - start


def measure(case: Case, device: str) -> list[dict[str, object]]:
    model, _, images = trained(case)
    model = model.double().to(device)
    plane: rs.Slice = rs.Simplex(images[[3, 5, 8]])
    segment = rs.Segment(images[3], images[8])
    if case.is_random:
        axes = torch.linalg.qr(torch.randn(64, 2, dtype=torch.float64))[0].T
        plane, segment = rs.Box(torch.zeros(64), axes, 3.0), rs.Segment(-3 * axes[0], 3 * axes[0])
    rs.decision_map(model, segment)
    curve = []
    for share in SHARES:
        start = clock(device)
        m = rs.decision_map(model, plane, undecided=share)
        if share == case.undecided:
            rows = [
                _row(
                    f"map, {case.name}", case, m, clock(device) - start, floor(model, plane, torch.cat(m.cells), device)
                )
            ]
        curve.append((m.n_passes, m.undecided))
    start = clock(device)
    line = rs.decision_map(model, segment)
    regions = line.n_regions
    seconds = clock(device) - start
    bottom = floor(model, segment, torch.cat(line.cells), device)
    last = _row(f"count on a segment, {case.name}", case, line, seconds, bottom)
    return [{**rows[0], "curve": curve}, {**last, "regions": regions}]


def _row(name: str, case: Case, m: rs.DecisionMap, seconds: float, bottom: float) -> dict[str, object]:
    return {
        "case": name, "network": case.name, "seconds": seconds, "floor": bottom, "ratio": seconds / bottom,
        "cells": len(m), "passes": m.n_passes, "undecided": m.undecided, "peak_gib": None,
    }  # fmt: skip


class Blocks(nn.Module):
    """What follows the embedding of a vision transformer."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: Tensor) -> Tensor:
        return self.net.head(self.net.norm(self.net.layers(tokens)).mean(1))


class Residual(nn.Module):
    """The block of ResNet18 with SiLU."""

    def __init__(self, n: int, m: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(n, m, 3, stride, 1, bias=False), nn.BatchNorm2d(m), nn.SiLU(),
            nn.Conv2d(m, m, 3, 1, 1, bias=False), nn.BatchNorm2d(m),
        )  # fmt: skip
        self.past = nn.Identity() if n == m else nn.Conv2d(n, m, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.body(x) + self.past(x))


def resnet(width: int, blocks: int) -> nn.Module:
    """The first ``blocks`` blocks of ResNet18 (8 of width 64) with SiLU, and a linear layer on the means."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.SiLU()]
    n = width
    for i in range(blocks):
        m = width << (i // 2)
        layers.append(Residual(n, m, 2 if m > n else 1))
        n = m
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n, 10))


def deep(device: str, words: list[str]) -> Iterator[dict[str, object]]:
    """How much of a segment is proven in one round of 16 cells around its middle, for ever shorter segments."""
    data = digits()
    firsts = data.inputs[[int((data.labels == label).nonzero()[0, 0]) for label in (3, 8)]]
    for blocks, width, patch in ((1, 16, 4), (1, 32, 4), (2, 32, 4), (4, 32, 4), (1, 32, 2), (12, 192, 4)):
        name = f"transformer, {blocks} block{'s' * (blocks > 1)}, {(8 // patch) ** 2} tokens x {width}"
        if not any(word in name for word in words or [""]):
            continue
        torch.manual_seed(0)
        net = vit(
            classes=10, input_shape=(1, 8, 8), depth=blocks, width=width, heads=3 if width == 192 else 2, patch=patch
        )
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        for _ in range(15 if blocks < 12 else 2):
            for batch in torch.randperm(len(data.inputs)).split(64):
                optimizer.zero_grad()
                F.cross_entropy(net(data.inputs[batch]), data.labels[batch]).backward()
                optimizer.step()
        with torch.no_grad():
            ends = net.patches(firsts).flatten(2).transpose(1, 2) + net.positions
        yield reach(name, Blocks(net.eval()), ends, device)
    for width, blocks in ((16, 1), (16, 2), (64, 1), (64, 2), (64, 4), (64, 8)):
        torch.manual_seed(0)
        name = f"CNN, SiLU, {2 * blocks + 1} convolutions, {width} channels, random"
        if not any(word in name for word in words or [""]):
            continue
        net = resnet(width, blocks).eval()
        yield reach(
            name,
            net,
            torch.randn(2, 3, 32, 32),
            device,
        )


def reach(name: str, model: nn.Module, ends: Tensor, device: str) -> dict[str, object]:
    """The longest part 2^-n of a segment, around its middle, of which 16 cells prove something; the shortest first."""
    model, (a, b) = model.to(device), ends.to(device).double()
    start, longest, decided, rounds = time.perf_counter(), None, 0.0, 0
    for shorter in (DEEPEST, *range(0, DEEPEST, 4)):
        part = rs.Box((a + b) / 2, [b - a], 0.5 ** (shorter + 1))
        m, rounds = rs.decision_map(model, part, max_cells=17), rounds + 1
        if m.undecided < 1:
            longest, decided = shorter, 1 - m.undecided
        if (m.undecided < 1) == (shorter < DEEPEST):
            break
    seconds = time.perf_counter() - start
    row: dict[str, object] = {
        "case": name, "parameters": sum(p.numel() for p in model.parameters()), "shorter": longest, "decided": decided,
        "seconds_a_cell": seconds / (16 * rounds), "seconds": seconds, "ratio": 0.0, "peak_gib": None,
    }  # fmt: skip
    if longest is not None and longest <= 4:
        start = time.perf_counter()
        m = rs.decision_map(model, rs.Segment(a, b), max_seconds=120.0)
        row |= {"undecided": m.undecided, "cells": len(m), "regions": m.n_regions if m.status else None}
        row["seconds_segment"] = time.perf_counter() - start
    return row


def missed(case: Case, n_lines: int) -> dict[str, object]:
    """Proven numbers of regions between random pairs of images, and those on 200 equally spaced points of each line."""
    model, x, _ = trained(case)
    model = model.double()
    generator = torch.Generator().manual_seed(1)
    proven, sampled, open_lines = 0, 0, 0
    lines_with_misses = 0
    start = time.process_time()
    for _ in range(n_lines):
        a, b = torch.randperm(len(x), generator=generator)[:2].tolist()
        segment = rs.Segment(x[a], x[b])
        regions = rs.decision_map(model, segment).n_regions
        with torch.no_grad():
            labels = model(segment.embed(torch.linspace(0, 1, 200, dtype=torch.float64)[:, None])).argmax(1)
        if not isinstance(regions, int):
            open_lines += 1
            continue
        on_grid = 1 + int((labels.diff() != 0).sum())
        proven, sampled = proven + regions, sampled + on_grid
        lines_with_misses += on_grid < regions
    n = n_lines - open_lines
    return {
        "case": f"lines, {case.name}", "lines": n, "open": open_lines, "proven": proven / n, "sampled": sampled / n,
        "missed": (proven - sampled) / n, "lines_with_misses": lines_with_misses,
        "seconds": time.process_time() - start, "ratio": 0.0, "peak_gib": None,
    }  # fmt: skip


def figure() -> None:
    """Undecided share against passes of cells, from the stored rows."""
    drawn, (ax,) = style.figure(1, 1, width=5.5, height=3.6)
    for i, row in enumerate(row for row in load("smooth-cpu") if "curve" in row):
        passes, shares = zip(*row["curve"], strict=True)
        ax.plot(
            passes, [100 * share for share in shares], marker="o", markersize=3, label=row["network"], color=f"C{i}"
        )
    ax.set(xscale="log", yscale="log", xlabel="cells that went through the network", ylabel="undecided share (%)")
    ax.legend(frameon=False, fontsize="small")
    drawn.savefig(FIGURE, dpi=150)


def without_signs() -> None:
    """From now on, bound all errors without signs."""
    for name in ("network", "decision_map"):
        importlib.import_module(f"regionscope.smooth.{name}").MOST_ERRORS = 0  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description="time decision_map against forward passes")
    parser.add_argument("networks", nargs="*", help="words of the names of the wanted networks; all by default")
    parser.add_argument("--plain", action="store_true", help="errors without signs; stores nothing")
    parser.add_argument("--figure", action="store_true", help="the figure alone")
    parser.add_argument("--deep", action="store_true", help="transformers and deep networks of convolutions alone")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--lines", type=int, help="number of lines on which to compare with 200 points each")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.plain:
        without_signs()
    if options.deep:
        for row in deep(options.device, options.networks):
            print(row, flush=True)
            store(f"smooth-deep-{options.device}", [{**row, **surroundings(options.device)}])
        return
    for case in CASES if not options.figure else []:
        if not options.networks or any(word in case.name for word in options.networks):
            rows = measure(case, options.device) if options.lines is None else [missed(case, options.lines)]
            for row in rows:
                print({key: value for key, value in row.items() if key not in ("network", "curve")}, flush=True)
            if not options.plain:
                name = f"smooth-{options.device}" if options.lines is None else "smooth-lines"
                store(name, [{**row, **surroundings(options.device)} for row in rows])
    if not options.plain:
        figure()


if __name__ == "__main__":
    main()
