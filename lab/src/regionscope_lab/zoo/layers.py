"""The smallest parts of the networks: named chains, convolutions, activations, the head."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Sequence

from torch import nn

from regionscope.checks import one_of

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "relu6": nn.ReLU6,
    "hardtanh": nn.Hardtanh,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
}
"""Activations by their names, as options give them; the first four are piecewise affine."""

_NAMES: dict[type[nn.Module], str] = {
    **{kind: name for name, kind in ACTIVATIONS.items()},
    nn.Conv2d: "conv",
    nn.BatchNorm2d: "bn",
    nn.MaxPool2d: "pool",
    nn.AvgPool2d: "pool",
}


def activation_layer(name: str) -> nn.Module:
    """A new layer for one of ``ACTIVATIONS``."""
    return ACTIVATIONS[one_of("activation", name, ACTIVATIONS)]()


def chain(*layers: nn.Module) -> nn.Sequential:
    """One layer after the other, called by kind and number: ``conv1``, ``bn1``, ``relu1``, ``conv2``...

    >>> chain(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    Sequential(
      (linear1): Linear(in_features=2, out_features=3, bias=True)
      (relu1): ReLU()
      (linear2): Linear(in_features=3, out_features=1, bias=True)
    )
    """
    seen: Counter[str] = Counter()
    named: OrderedDict[str, nn.Module] = OrderedDict()
    for layer in layers:
        kind = _NAMES.get(type(layer), re.sub("(?<=[a-z])(?=[A-Z])", "_", type(layer).__name__).lower())
        seen[kind] += 1
        separator = "_" if kind[-1].isdigit() else ""  # relu6_1
        named[f"{kind}{separator}{seen[kind]}"] = layer
    return nn.Sequential(named)


def convolution(
    inputs: int,
    outputs: int,
    kernel: int = 3,
    *,
    stride: int = 1,
    groups: int = 1,
    bn: bool = True,
    bias: bool | None = None,
) -> tuple[nn.Module, ...]:
    """A convolution that keeps the size of the image (up to ``stride``), and BatchNorm unless ``bn`` is False.

    bias: of the convolution; by default only without BatchNorm, whose own shift would make it idle.
    """
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=not bn if bias is None else bias)
    return (conv, nn.BatchNorm2d(outputs)) if bn else (conv,)


def head(inputs: int, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """The mean of each channel over the image, whatever its size, and a linear layer to the classes."""
    parts: OrderedDict[str, nn.Module] = OrderedDict(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten())
    if dropout:
        parts["dropout"] = nn.Dropout(dropout)
    parts["linear"] = nn.Linear(inputs, classes)
    return nn.Sequential(parts)


def network(stem: nn.Module, stages: Sequence[nn.Module], end: nn.Module) -> nn.Sequential:
    """``stem``, ``stage1``, ``stage2``..., ``head``."""
    named: OrderedDict[str, nn.Module] = OrderedDict(stem=stem)
    named.update((f"stage{i}", stage) for i, stage in enumerate(stages, 1))
    named["head"] = end
    return nn.Sequential(named)
