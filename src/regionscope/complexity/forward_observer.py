"""See every pre-activation of any forward pass: module or functional, in any ``nn.Module``.

A ``TorchFunctionMode`` sees each torch function that the forward pass calls; hooks on the modules say in which module
the call stands, which gives it a name. Nothing about the architecture needs to be known. Not seen: fused recurrent
cells (``nn.LSTM`` and others) and scripted modules, which run below Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from regionscope.complexity.activations import (
    LINEAR,
    MAX_POOLS,
    OBSERVED,
    Folds,
    argument,
    folds,
    operation,
)
from regionscope.errors import InputError
from regionscope.network.call.forward import call_model


@dataclass(frozen=True, slots=True)
class ObservedCall:
    """A call of a torch function. op: name of the operation. name, kind: as ``ForwardObserver`` names the call."""

    op: str
    func: Callable[..., Any]
    args: Any
    kwargs: Mapping[str, Any]
    name: str = ""
    kind: type[nn.Module] | None = None

    def run(self) -> Any:
        return self.func(*self.args, **self.kwargs)


class ForwardObserver(TorchFunctionMode):
    """Watch ``model``: ``with observer.watching(): observer.forward(x)``. Subclasses say what to do.

    A call is named after its module ("features.1"), or, where forward calls a function, after the module it stands
    in and the function ("block.relu"). The second call of the same name in one forward pass is "...#2".
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._stack: list[tuple[str, nn.Module]] = []
        self.seen: Counter[str] = Counter()  # names of the calls in this pass

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Forward passes are watched inside; afterwards all hooks are gone."""
        hooks: list[RemovableHandle] = []
        try:
            for path, module in self.model.named_modules():
                if isinstance(module, torch.jit.ScriptModule):
                    raise InputError(
                        "Expected a Python module, got a TorchScript "
                        f"module{f' as layer {path!r}' if path else ''}, whose layers cannot be observed. Pass the "
                        "Python module it was made from."
                    )
                self._watch(path, module, hooks)
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def forward(self, inputs: Tensor) -> Any:
        """The output of one forward pass, with names counted from the start."""
        self._stack.clear()
        self.seen = Counter()
        with self:
            return call_model(self.model, inputs)

    def _watch(self, path: str, module: nn.Module, hooks: list[RemovableHandle]) -> None:
        """Hooks, since a wrapper in place of the module's call would go with a clone of the module to other weights."""
        stack, place = self._stack, (path, module)

        def enter(module: nn.Module, args: Any) -> None:
            stack.append(place)

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            stack.pop()

        hooks.append(module.register_forward_pre_hook(enter, prepend=True))
        hooks.append(module.register_forward_hook(leave, always_call=True))

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        op = operation(func)
        if op not in OBSERVED:
            return self.at_other(ObservedCall(op, func, args, kwargs))
        if op == "batch_norm" and argument(args, kwargs, 5, "training"):
            raise InputError(
                f"Expected batch normalisation with running statistics, got '{self._name(op)[0]}', which normalises by "
                "the batch. Build it with track_running_stats=True."
            )
        if op == "addmm" and len(args) == 3 and not kwargs and isinstance(args[2], nn.Parameter):
            # A linear layer by another name: the Conv1D of GPT-2.
            linear = (args[1], args[2].t(), args[0])
            return self.at_linear(ObservedCall("linear", nn.functional.linear, linear, {}, *self._name(op)))
        if op in LINEAR:
            return self.at_linear(ObservedCall(op, func, args, kwargs, *self._name(op)))
        if op in MAX_POOLS:
            name = self._name(op.removesuffix("_with_indices"))
            return self.at_max_pool(ObservedCall(op, func, args, kwargs, *name))
        thresholds = folds(op, args, kwargs)
        if thresholds is None:
            return self.at_other(ObservedCall(op, func, args, kwargs))
        return self.at_activation(ObservedCall(op, func, args, kwargs, *self._name(op)), thresholds)

    def _name(self, op: str) -> tuple[str, type[nn.Module] | None]:
        """The unique name of this call, and the type of the module that consists of it (None for a plain function)."""
        path, module = self._stack[-1] if self._stack else ("", self.model)
        whole = not module._modules and type(module).__module__.startswith("torch.nn.")
        name = path if whole and path else f"{path}.{op}".lstrip(".")
        self.seen[name] += 1
        count = self.seen[name]
        return name if count == 1 else f"{name}#{count}", type(module) if whole else None

    def at_activation(self, call: ObservedCall, folds: Folds) -> Any:
        return call.run()

    def at_linear(self, call: ObservedCall) -> Any:
        return call.run()

    def at_max_pool(self, call: ObservedCall) -> Any:
        return call.run()

    def at_other(self, call: ObservedCall) -> Any:
        return call.run()


def tensors(value: Any) -> list[Tensor]:
    """All tensors in nested lists, tuples and dicts."""
    tensors_inside, left = [], [value]
    for item in left:  # it grows meanwhile
        if isinstance(item, torch.Tensor):
            tensors_inside.append(item)
        elif isinstance(item, (list, tuple)):  # faster than list | tuple
            left += item
        elif isinstance(item, dict):
            left += item.values()
    return tensors_inside
