"""One optimiser step: run operation by operation, or recorded once on a GPU and replayed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope_lab.data import Dataset

_WARM = 3  # steps before recording: optimisers make their state in the first, libraries choose their kernels

Run = Callable[[Tensor, Tensor], Tensor]
"""(inputs, targets) -> the loss before the step"""


class _EveryPosition(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model: Any = model

    def forward(self, inputs: Tensor) -> Tensor:
        return self.model.every_position(inputs)  # type: ignore[no-any-return]


def every_position(model: nn.Module, data: Dataset) -> nn.Module:
    """``model.every_position`` as a module: logits (b, l, tokens) for sequences (b, l)."""
    if not hasattr(model, "every_position") or data.inputs.ndim != 2:
        raise InputError(
            "Expected a network with a method every_position and sequences (n, l) for the loss next_token, got "
            f"{type(model).__name__} and inputs of shape {tuple(data.inputs.shape)}. Use the loss cross_entropy."
        )
    return _EveryPosition(model)


class TrainingStep:
    """Computes the loss of a batch and its gradients, and updates the weights."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any,
        compare: Callable[[Tensor, Tensor], Tensor],
        precision: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._model, self._optimizer, self._compare, self._precision = model, optimizer, compare, precision

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        self._optimizer.zero_grad(set_to_none=True)
        with self._precision():
            loss = self._compare(self._model(inputs), targets)
        loss.backward()
        self._optimizer.step()
        return loss.detach()


class CompiledStep(TrainingStep):
    """The same with the model compiled by Inductor, which fuses what lies between convolutions, and with the fastest
    algorithm for each convolution, which cuDNN finds by trying. Both choose by timing, so that the last bits of a
    result may differ from one process to the next.
    """

    def __init__(self, model: nn.Module, *others: Any) -> None:
        torch.compiler.reset()  # or the networks of earlier runs count towards the limit on recompilations
        compiled: Any = torch.compile(model, dynamic=False)
        super().__init__(compiled, *others)

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = True
        try:
            return super().__call__(inputs, targets)
        finally:
            torch.backends.cudnn.benchmark = before


class Replay:
    """``step`` as a CUDA graph: after a few steps it is recorded, and then launched as a whole.

    A GPU that is fed operation by operation often waits for Python: at 256 images a step ResNet18 trains at half speed.
    What is replayed is what was recorded, so the model must do the same operations in every step, and the learning rate
    must be a tensor (see ``set_rate``). Batches of another size than ``size`` take the step as it is.

    recorded: the step to record, if it is another one than for those, such as a compiled one.
    """

    def __init__(self, step: Run, size: int, device: torch.device, *, recorded: Run | None = None) -> None:
        self._step, self._size = step, size
        self._recorded = step if recorded is None else recorded
        self._stream = torch.cuda.Stream(device)
        self._steps = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        if len(inputs) != self._size:
            return self._step(inputs, targets)
        if self._steps < _WARM:
            self._steps += 1
            return self._aside(inputs, targets)
        if self._graph is None:
            self._record(inputs, targets)
        assert self._graph is not None
        self._inputs.copy_(inputs)
        self._targets.copy_(targets)
        self._graph.replay()
        return self._loss

    def _aside(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The step on the stream that will be recorded."""
        main = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(main)
        with torch.cuda.stream(self._stream):
            loss = self._recorded(inputs, targets)
        main.wait_stream(self._stream)
        return loss

    def _record(self, inputs: Tensor, targets: Tensor) -> None:
        """Record the operations and the memory that they read and write, without computing anything."""
        self._inputs, self._targets = inputs.clone(), targets.clone()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=self._stream):
            self._loss = self._recorded(self._inputs, self._targets)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate, in place where it is a tensor: a recorded step reads it there."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
