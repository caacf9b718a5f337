"""A step of Adam on a small ReLU network in NumPy, for networks whose arithmetic costs less than PyTorch's calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope_lab.config import Training

_Floats = NDArray[np.floating]
_FIRST, _SECOND, _EPS = 0.9, 0.999, 1e-8  # the moments and the epsilon of torch.optim.Adam


class NumpyStep:
    """What ``TrainingStep`` does, for a chain of linear layers with ReLU between them, cross-entropy and Adam on a CPU.

    The same numbers up to rounding, in the dtype of the model. All parameters, their gradient and the moments of Adam
    lie in one vector each, with views by parameter; ``write`` brings them to the model and its optimiser, and ``read``
    takes them from there. Cost: about an eighth of ``TrainingStep`` for three layers of 32 units and batches of 32.
    """

    def __init__(self, model: nn.Module, optimizer: Any, training: Training, device: torch.device) -> None:
        self._layers, self._optimizer = _linear_layers(model), optimizer
        settings = (training.optimizer, training.loss, training.mixup, device.type)
        if settings != ("adam", "cross_entropy", 0, "cpu") or training.precision == "bf16":
            raise InputError(
                "Expected Adam, cross-entropy, no mixup, no bf16 and a CPU for steps in NumPy, got other settings. "
                "Leave numpy out."
            )
        self._decay = training.weight_decay
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._parameters = [part for layer in self._layers for part in (layer.weight, layer.bias)]
        self.read()

    def read(self) -> None:
        """Take weights and moments from the model and its optimiser."""
        states = [self._optimizer.state.get(part, {}) for part in self._parameters]
        self._steps = int(states[0].get("step", 0))
        self._flat, self._weights, self._biases = _joined(self._parameters)
        zeros = [torch.zeros_like(part) for part in self._parameters]
        self._grad, self._weight_grads, self._bias_grads = _joined(zeros)
        self._first, self._second = (
            _joined([state.get(name, zero) for state, zero in zip(states, zeros, strict=True)])[0]
            for name in ("exp_avg", "exp_avg_sq")
        )

    def write(self) -> None:
        """Bring weights and moments to the model and its optimiser."""
        end = 0
        for part in self._parameters:
            place, end = slice(end, end + part.numel()), end + part.numel()
            shape = part.shape[::-1]
            value, first, second = (
                torch.from_numpy(vector[place].reshape(shape).T.copy())
                for vector in (self._flat, self._first, self._second)
            )
            part.data.copy_(value)
            step = torch.tensor(float(self._steps))
            self._optimizer.state[part] = {"step": step, "exp_avg": first, "exp_avg_sq": second}

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        loss = self._slope(inputs.numpy(), targets.numpy())
        self._adam(self._optimizer.param_groups[0]["lr"])
        return self._loss.fill_(loss)

    def _slope(self, x: _Floats, y: NDArray[np.integer]) -> float:
        """Set the gradient of the mean cross-entropy over a batch, and return that mean."""
        last = len(self._layers) - 1
        hidden = [x]
        for i in range(last):
            values = hidden[-1] @ self._weights[i]
            values += self._biases[i]
            hidden.append(np.maximum(values, 0, out=values))
        back = hidden[-1] @ self._weights[last]
        back += self._biases[last]
        back -= back.max(1, keepdims=True)
        rows = np.arange(len(y))
        right = back[rows, y]
        np.exp(back, out=back)
        total = back.sum(1, keepdims=True)
        back /= total
        back[rows, y] -= 1
        back /= len(y)
        for i in range(last, -1, -1):
            np.matmul(hidden[i].T, back, out=self._weight_grads[i])
            back.sum(0, out=self._bias_grads[i])
            if i:
                back = back @ self._weights[i].T
                back *= hidden[i] > 0
        return float(np.log(total).sum() - right.sum()) / len(y)

    def _adam(self, lr: float) -> None:
        """One step, as ``torch.optim.Adam``."""
        self._steps += 1
        if self._decay:
            self._grad += self._decay * self._flat
        self._first *= _FIRST
        self._first += (1 - _FIRST) * self._grad
        self._second *= _SECOND
        self._second += (1 - _SECOND) * np.square(self._grad)
        size = np.sqrt(self._second)
        size /= math.sqrt(1 - _SECOND**self._steps)
        size += _EPS
        np.divide(self._first, size, out=size)
        size *= lr / (1 - _FIRST**self._steps)
        self._flat -= size


def _joined(parts: Sequence[Tensor]) -> tuple[_Floats, list[_Floats], list[_Floats]]:
    """Weights (transposed) and biases in one vector, and views of the weights and of the biases in it."""
    arrays = [part.detach().numpy().T for part in parts]
    flat = np.concatenate([array.ravel() for array in arrays])
    views, end = list[_Floats](), 0
    for array in arrays:
        place, end = slice(end, end + array.size), end + array.size
        views.append(flat[place].reshape(array.shape))
    return flat, views[::2], views[1::2]


def _linear_layers(model: nn.Module) -> Sequence[nn.Linear]:
    """The linear layers of a chain linear, ReLU, linear, ..., linear."""
    modules = list(model) if isinstance(model, nn.Sequential) else [model]
    layers = [layer for layer in modules[::2] if isinstance(layer, nn.Linear) and layer.bias is not None]
    between = all(isinstance(layer, nn.ReLU) for layer in modules[1::2])
    if len(modules) % 2 == 0 or len(layers) != len(modules[::2]) or not between:
        kinds = ", ".join(type(layer).__name__ for layer in modules)
        raise InputError(
            f"Expected linear layers with biases and one ReLU between each two for steps in NumPy, got {kinds}. Leave "
            "numpy out."
        )
    return layers
