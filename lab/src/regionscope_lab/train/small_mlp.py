"""Adam on a small ReLU network in NumPy, for networks whose arithmetic costs less than PyTorch's calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regionscope.checks import check_labels
from regionscope.errors import InputError

_Floats = NDArray[np.floating]
_FIRST, _SECOND, _EPS = 0.9, 0.999, 1e-8  # the moments and the epsilon of torch.optim.Adam


def train_small(
    model: nn.Sequential,
    inputs: Tensor,
    labels: Tensor,
    *,
    epochs: Sequence[int],
    on_epoch: Callable[[int, nn.Sequential], object],
    lr: float = 1e-3,
    weight_decay: float = 0.0,
    batch_size: int = 32,
    seed: int = 0,
) -> None:
    """Train a chain of linear layers with ReLU between them in place, on cross-entropy with Adam at a constant rate.

    The same steps as ``train`` with ``optimizer="adam"`` and the same seed, in the dtype of the model, up to rounding:
    weight decay is L2 in the gradient, and the order of batches is the same.

    epochs: ascending; ``on_epoch(epoch, model)`` sees the model at each, and the last one ends the training. Epoch 0 is
        the model as it is given.

    Cost: about a tenth of ``train`` for three hidden layers of 32 units and batches of 32.
    """
    if list(epochs) != sorted(set(epochs)) or not epochs or epochs[0] < 0:
        raise InputError(f"Expected epochs in ascending order from 0 on, got {list(epochs)}. Sort them.")
    layers = _linear_layers(model)
    check_labels(labels, layers[-1].out_features)
    net = _Network.of(layers)
    x, y = inputs.detach().cpu().numpy().astype(net.flat.dtype), labels.cpu().numpy()
    order = torch.Generator().manual_seed(seed)
    for epoch in range(epochs[-1] + 1):
        if epoch in epochs:
            net.write(layers)
            on_epoch(epoch, model)
        if epoch < epochs[-1]:
            shuffled = torch.randperm(len(x), generator=order).numpy()
            for start in range(0, len(x), batch_size):
                chosen = shuffled[start : start + batch_size]
                net.slope(x[chosen], y[chosen])
                net.adam(lr, weight_decay)


@dataclass
class _Network:
    """All parameters in one vector ``flat`` with their gradient, the moments of Adam, and views of each layer."""

    flat: _Floats
    grad: _Floats
    first: _Floats
    second: _Floats
    weights: list[_Floats]
    biases: list[_Floats]
    weight_grads: list[_Floats]
    bias_grads: list[_Floats]
    steps: int = 0

    @staticmethod
    def of(layers: Sequence[nn.Linear]) -> _Network:
        parts = [part.detach().numpy() for layer in layers for part in (layer.weight.T, layer.bias)]
        flat = np.concatenate([part.ravel() for part in parts])
        grad, views, slopes, end = np.zeros_like(flat), [], [], 0
        for part in parts:
            place, end = slice(end, end + part.size), end + part.size
            views.append(flat[place].reshape(part.shape))
            slopes.append(grad[place].reshape(part.shape))
        zero = np.zeros_like
        return _Network(flat, grad, zero(flat), zero(flat), views[::2], views[1::2], slopes[::2], slopes[1::2])

    def write(self, layers: Sequence[nn.Linear]) -> None:
        with torch.no_grad():
            for layer, weight, bias in zip(layers, self.weights, self.biases, strict=True):
                layer.weight.copy_(torch.from_numpy(weight.T.copy()))
                layer.bias.copy_(torch.from_numpy(bias))

    def slope(self, x: _Floats, y: NDArray[np.integer]) -> None:
        """Gradient of the mean cross-entropy over a batch."""
        last = len(self.weights) - 1
        hidden = [x]
        for i in range(last):
            values = hidden[-1] @ self.weights[i]
            values += self.biases[i]
            hidden.append(np.maximum(values, 0, out=values))
        back = hidden[-1] @ self.weights[last]
        back += self.biases[last]
        back -= back.max(1, keepdims=True)
        np.exp(back, out=back)
        back /= back.sum(1, keepdims=True)
        back[np.arange(len(y)), y] -= 1
        back /= len(y)
        for i in range(last, -1, -1):
            np.matmul(hidden[i].T, back, out=self.weight_grads[i])
            back.sum(0, out=self.bias_grads[i])
            if i:
                back = back @ self.weights[i].T
                back *= hidden[i] > 0

    def adam(self, lr: float, weight_decay: float) -> None:
        """One step, as ``torch.optim.Adam``."""
        self.steps += 1
        if weight_decay:
            self.grad += weight_decay * self.flat
        self.first *= _FIRST
        self.first += (1 - _FIRST) * self.grad
        self.second *= _SECOND
        self.second += (1 - _SECOND) * np.square(self.grad)
        size = np.sqrt(self.second)
        size /= math.sqrt(1 - _SECOND**self.steps)
        size += _EPS
        np.divide(self.first, size, out=size)
        size *= lr / (1 - _FIRST**self.steps)
        self.flat -= size


def _linear_layers(model: nn.Sequential) -> list[nn.Linear]:
    """The linear layers of a chain linear, ReLU, linear, ..., linear."""
    modules = list(model)
    layers = [layer for layer in modules[::2] if isinstance(layer, nn.Linear) and layer.bias is not None]
    between = all(isinstance(layer, nn.ReLU) for layer in modules[1::2])
    if len(modules) % 2 == 0 or len(layers) != len(modules[::2]) or not between:
        kinds = ", ".join(type(layer).__name__ for layer in modules)
        raise InputError(
            f"Expected linear layers with biases and one ReLU between each two, got {kinds}. Use train(), which takes "
            "any network."
        )
    return layers
