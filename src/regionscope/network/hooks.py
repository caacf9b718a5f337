"""Forward hooks that change values. A program has none of the hooks of its module, so their changes would be lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.utils._pytree import tree_leaves

from regionscope.errors import UntraceableModel
from regionscope.formatting import described
from regionscope.network.call.determinism import same_numbers
from regionscope.network.call.untouched import device_and_dtype, untouched
from regionscope.network.private_copy import ModuleCopy, compute_weight, has_hooks, runnable_parts

_ADVICE = (
    "Exact regions are those of a network without hooks. Fold the change into the forward of the module, or remove the "
    'hook. region_count(method="grid") and local_complexity() run hooks.'
)
_N_DRAWN = 3


def global_hooks() -> bool:
    """Whether torch has forward hooks or pre-hooks that run in all modules of the process."""
    return bool(torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks)


def check_hooks(module: nn.Module, input_shape: tuple[int, ...], points: Callable[[], Tensor] | None) -> str:
    """Raise UntraceableModel if a hook changes values at a few inputs; a warning if that cannot be told, else "".

    The hooks run on a private copy, and the values that a module takes and returns are compared with those before its
    hooks. A hook that changes something else, such as a weight, is noticed by comparing the outputs with those of a
    copy that runs without hooks.
    points: returns the inputs (n, *input_shape); drawn from a normal distribution if None. Cost: two copies of the
    weights and two forward passes of these inputs.
    """
    try:
        rows = _drawn(input_shape) if points is None else points()
        copied = runnable_parts(module)
        plain = _output(_without_hooks(runnable_parts(copied.module)), rows)  # same weights, also during a training
        watched = [_Watched(part) for part in copied.parts if global_hooks() or has_hooks(part)]
        output = _output(copied, rows)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever the user's hooks and forward raise
        return (
            "Expected a network that runs with its hooks, but a copy fails on inputs of shape "
            f"(v, {', '.join(map(str, input_shape))}): {described(error)} Whether hooks change values is not known. "
            f"{_ADVICE}"
        )
    names = {id(part): f"{path!r} ({type(part).__name__})" for path, part in copied.module.named_modules() if path}

    def listed(those: list[_Watched]) -> str:
        return " and of ".join(names.get(id(hook.part), f"the module {type(hook.part).__name__}") for hook in those)

    if changing := [hook for hook in watched if hook.changes]:
        hook = "a hook" if has_hooks(changing[0].part) else "a global hook"
        raise UntraceableModel(
            f"Expected hooks that only look at values, but {hook} changes those of {listed(changing[:1])}. {_ADVICE}"
        )
    if not same_numbers(plain, [b.to(a.dtype) for a, b in zip(plain, output, strict=True)]):
        raise UntraceableModel(
            f"Expected hooks that only look at values, but the hooks of {listed(watched)} change the output of the "
            f"network. {_ADVICE}"
        )
    return ""


class _Watched:
    """Compares what a module is given and what it returns before and after its hooks.

    The values before lie on a stack, since a module may call itself.
    """

    def __init__(self, part: nn.Module) -> None:
        self.part, self.changes = part, False
        self._forward, self._before = part.forward, list[list[Tensor]]()
        part.__dict__["forward"] = self._run  # which is called between the pre-hooks and the hooks
        part.__dict__["_compiled_call_impl"] = self._call  # which nn.Module.__call__ prefers

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        self._before.append(_copies((args, kwargs)))
        result = self.part._call_impl(*args, **kwargs)
        self._compare(result)
        return result

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        self._compare((args, kwargs))
        result = self._forward(*args, **kwargs)
        self._before.append(_copies(result))
        return result

    def _compare(self, values: Any) -> None:
        before, after = self._before.pop(), _tensors(values)
        self.changes |= len(before) != len(after) or not all(map(_equal, before, after))


def _without_hooks(copied: ModuleCopy) -> ModuleCopy:
    for part in copied.parts:
        for hook in part._forward_pre_hooks.values():
            compute_weight(hook, part)
        part.__dict__["_compiled_call_impl"] = part.forward
    return copied


def _output(copied: ModuleCopy, rows: Tensor) -> list[Tensor]:
    device, dtype = device_and_dtype(copied.module, like=rows)

    def run() -> Any:
        return copied.module(rows.to(device, dtype, copy=True))

    try:
        with untouched(run, device=device) as watched_run:
            return _copies(watched_run())
    finally:
        for part in copied.parts:  # in reference cycles, the copies would stay in memory
            part.__dict__["_compiled_call_impl"] = None
            part.__dict__.pop("forward", None)


def _drawn(input_shape: tuple[int, ...]) -> Tensor:
    generator = torch.Generator("cpu").manual_seed(0)
    return torch.randn(_N_DRAWN, *input_shape, generator=generator, dtype=torch.float64, device="cpu")


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _copies(values: Any) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in _tensors(values)]


def _equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same numbers, perhaps in another dtype."""
    return a.shape == b.shape and bool(torch.isclose(a, b.to(a.dtype), rtol=0.0, atol=0.0, equal_nan=True).all())
