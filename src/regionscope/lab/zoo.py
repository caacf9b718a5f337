"""Small networks with seeded weights."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

from regionscope.errors import InputError

__all__ = ["mlp"]


def mlp(widths: Sequence[int], *, seed: int = 0) -> nn.Sequential:
    """A ReLU network with the given widths, input and output included, and PyTorch's default initial weights.

    The nonlinearities are called ``relu1``, ``relu2``, ... in order. The global random state is untouched.

    >>> mlp([2, 32, 32, 2])
    Sequential(
      (linear1): Linear(in_features=2, out_features=32, bias=True)
      (relu1): ReLU()
      (linear2): Linear(in_features=32, out_features=32, bias=True)
      (relu2): ReLU()
      (linear3): Linear(in_features=32, out_features=2, bias=True)
    )
    """
    if len(widths) < 2 or min(widths) < 1:
        raise InputError(f"widths must hold the input and the output width, all positive, and came as {list(widths)}.")
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for i in range(1, len(widths)):
            layers[f"linear{i}"] = nn.Linear(widths[i - 1], widths[i])
            if i < len(widths) - 1:
                layers[f"relu{i}"] = nn.ReLU()
    return nn.Sequential(layers)
