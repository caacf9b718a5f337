"""Fully connected networks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from regionscope.checks import check_shape, is_integer, read_integer
from regionscope.errors import InputError
from regionscope_lab.zoo.layers import activation_layer, chain, number, seeded


def mlp(widths: Sequence[int], *, seed: int = 0) -> nn.Sequential:
    """A ReLU network with the given widths, input and output included, and PyTorch's default initial weights.

    The folds are called ``relu1``, ``relu2``, ... in order. The global random state is untouched.

    >>> mlp([2, 32, 32, 2])
    Sequential(
      (linear1): Linear(in_features=2, out_features=32, bias=True)
      (relu1): ReLU()
      (linear2): Linear(in_features=32, out_features=32, bias=True)
      (relu2): ReLU()
      (linear3): Linear(in_features=32, out_features=2, bias=True)
    )
    """
    if not isinstance(widths, Sequence) or len(widths) < 2 or not all(map(is_integer, widths)):
        raise InputError(f"Expected at least two positive widths, got {widths!r}. Write a list such as [2, 32, 32, 2].")
    with seeded(seed):
        return chain(*_layers(widths, "relu"))


def dense(
    *,
    classes: int,
    input_shape: Sequence[int],
    depth: int = 2,
    width: int = 64,
    activation: str = "relu",
    scale: float = 1.0,
) -> nn.Module:
    """``depth`` hidden layers of ``width`` units; images are flattened first. The weights are those of ``mlp``.

    scale: all initial weights and biases are multiplied by it (Liu et al. 2023, "Omnigrok").
    """
    sizes = check_shape(input_shape)
    hidden = [read_integer("width", width)] * read_integer("depth", depth, least=0)
    flatten = [nn.Flatten()] if len(sizes) > 1 else []
    return scaled(chain(*flatten, *_layers([math.prod(sizes), *hidden, classes], activation)), scale)


def scaled(module: nn.Module, scale: float) -> nn.Module:
    """``module``, its parameters multiplied by ``scale``."""
    factor = number("scale", scale)
    if factor != 1.0:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(factor)
    return module


def _layers(widths: Sequence[int], activation: str) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for i in range(1, len(widths)):
        layers.append(nn.Linear(widths[i - 1], widths[i]))
        if i < len(widths) - 1:
            layers.append(activation_layer(activation))
    return layers
