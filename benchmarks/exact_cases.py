"""The cases of ``bench_exact``: networks, the slices on which they are cut, and what is promised for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

import regionscope as rs
from regionscope_lab import zoo


def mlp(*sizes: int, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn(seed: int = 0, *, max_pool: bool = False) -> nn.Sequential:
    torch.manual_seed(seed)
    pool: Callable[[int], nn.Module] = nn.MaxPool2d if max_pool else nn.AvgPool2d
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), pool(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), pool(2),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), pool(2),
        nn.Flatten(), nn.Linear(64 * 16, 10),
    )  # fmt: skip


def resnet18_and_segment() -> tuple[nn.Module, rs.Segment]:
    """Between two random images."""
    torch.manual_seed(0)
    ends = torch.rand((2, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return zoo.build("resnet18", width=64).eval(), rs.Segment(*ends)


def one_region(model: nn.Module, *shape: int) -> tuple[nn.Module, rs.Segment]:
    """A segment so short that nothing folds on it, for a network whose BatchNorms are not the identity."""
    draws = torch.Generator().manual_seed(3)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.1, generator=draws)
            layer.running_var.uniform_(0.5, 1.5, generator=draws)
    start, step = torch.rand((2, *shape), generator=draws, dtype=torch.float64)
    return model.eval(), rs.Segment(start, start + 1e-9 * step)


def resnet18(size: int, stem: str) -> tuple[nn.Module, rs.Segment]:
    return one_region(zoo.build("resnet18", input_shape=(3, size, size), stem=stem, classes=1000), 3, size, size)


def mobilenetv2(size: int) -> tuple[nn.Module, rs.Segment]:
    return one_region(zoo.build("mobilenetv2", input_shape=(3, size, size), classes=1000), 3, size, size)


def box(radius: float = 1.0) -> rs.Box:
    return rs.Box(torch.zeros(2), torch.eye(2), radius)


def images(n: int, *shape: int) -> torch.Tensor:
    return torch.rand((n, *shape), generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def triangles(n: int, side: float) -> list[rs.Simplex]:
    """Small triangles in all directions around n images, given together."""
    ends = torch.randn((n, 3, 784), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return [
        rs.Simplex(centre + side / math.sqrt(2 * 784) * each) for centre, each in zip(images(n, 784), ends, strict=True)
    ]


def segments(n: int) -> list[rs.Segment]:
    """Segments between images, given together."""
    return [rs.Segment(a, b) for a, b in images(2 * n, 784).reshape(n, 2, 784)]


@dataclass(frozen=True)
class Case:
    """A network, a slice (or a list of them), and the promise: at most ``ratio`` times the floor, ``gib`` of memory, or
    ``seconds``.

    long: one run is timed. read: the network is read by ``trace`` before the clock starts. folds: of a streamed case.
    compared: run with each way to compute convolutions, on a GPU only. trace: ``trace`` itself is timed.
    """

    name: str
    build: Callable[[], tuple[nn.Module, rs.Slice | Sequence[rs.Slice]]]
    ratio: float | None = None
    gib: float | None = None
    long: bool = False
    read: bool = False
    seconds: float | None = None
    folds: int = 0
    compared: bool = False
    trace: bool = False


def folded(network: nn.Module, times: int) -> nn.Sequential:
    """The network behind maps x -> 2|x| - 1 of both coordinates, each of which lays the square onto itself."""
    layers: list[nn.Module] = []
    for _ in range(times):
        first, second = nn.Linear(2, 4, bias=False), nn.Linear(4, 2)
        with torch.no_grad():
            first.weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
            second.weight.copy_(torch.tensor([[2.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 2.0]]))
            second.bias.fill_(-1.0)
        layers += [first, nn.ReLU(), second]
    return nn.Sequential(*layers, network)


CASES = [
    Case("plane 2-[32]*3-2", lambda: (mlp(2, 32, 32, 32, 2), box()), seconds=0.015),
    Case("plane 2-[64]*3-2", lambda: (mlp(2, 64, 64, 64, 2), box()), seconds=0.035),
    Case("plane 2-[256]*4-2", lambda: (mlp(2, 256, 256, 256, 256, 2), box()), ratio=2, gib=1.5),
    Case("triangle 784-[200]*3-10", lambda: (mlp(784, 200, 200, 200, 10), rs.Simplex(images(3, 784))), ratio=3),
    Case("100 triangles together", lambda: (mlp(784, 200, 200, 200, 10), triangles(100, 3.0))),
    Case("1,000 triangles together", lambda: (mlp(784, 200, 200, 200, 10), triangles(1000, 3.0)), ratio=1.5, long=True),
    Case("segment 784-[200]*3-10", lambda: (mlp(784, 200, 200, 200, 10), rs.Segment(*images(2, 784)))),
    Case(
        "segment, read before",
        lambda: (mlp(784, 200, 200, 200, 10), rs.Segment(*images(2, 784))),
        read=True,
        seconds=0.005,
    ),
    Case("1,000 segments together", lambda: (mlp(784, 200, 200, 200, 10), segments(1000)), ratio=1.2, long=True),
    Case("segment CNN, average pool", lambda: (cnn(), rs.Segment(*images(2, 3, 32, 32))), ratio=2, gib=1),
    Case("segment CNN, max pool", lambda: (cnn(max_pool=True), rs.Segment(*images(2, 3, 32, 32))), gib=1),
    Case("segment ResNet18", resnet18_and_segment, long=True, compared=True),
]
ONE_REGION: dict[str, Callable[[], tuple[nn.Module, rs.Segment]]] = {
    "ResNet18 32x32": lambda: resnet18(32, "imagenet"),
    "ResNet18 32x32, CIFAR's stem": lambda: resnet18(32, "cifar"),
    "ResNet18 112x112": lambda: resnet18(112, "imagenet"),
    "MobileNetV2 64x64": lambda: mobilenetv2(64),
    "MLP of 86 million": lambda: one_region(mlp(3072, 8192, 6144, 1536, 1000), 3072),
}
CASES += [Case(f"one region, {name}", build, ratio=6, read=True) for name, build in ONE_REGION.items()]
CASES += [Case(f"trace, {name}", build, ratio=8, trace=True) for name, build in ONE_REGION.items()]
SCALING = {"scaling r=0.2": 0.2, "scaling r=0.4": 0.4, "scaling r=0.8": 0.8, "scaling r=1.5": 1.5}  # 880,000 regions
SCALING["plane of a million regions"] = 1.8  # radius of the box
CASES += [Case(k, lambda r=r: (mlp(2, 512, 512, 512, 512, 2), box(r)), long=True) for k, r in SCALING.items()]
STREAMED = {f"streamed, 2-[88]*3-2 behind {k} folds": k for k in (2, 3, 4, 5)}  # 169,312 to 10,835,968 regions
CASES += [Case(name, lambda k=k: (mlp(2, 88, 88, 88, 2), box()), long=True, folds=k) for name, k in STREAMED.items()]
