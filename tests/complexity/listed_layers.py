"""The layers that a forward pass shows, as the tests compare them."""

from __future__ import annotations

import torch
from torch import nn

from regionscope.complexity.layer_listing import list_layers
from regionscope.complexity.layers import Layer
from regionscope.network.call.untouched import untouched


def layers_of(model: nn.Module, shape: tuple[int, ...]) -> list[Layer]:
    with untouched(model) as private:
        return list(list_layers(private, torch.zeros(shape)).layers)


def names(model: nn.Module, shape: tuple[int, ...], role: str = "activation") -> list[str]:
    return [layer.name for layer in layers_of(model, shape) if layer.role == role]
