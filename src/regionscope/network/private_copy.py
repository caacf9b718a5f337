"""Private copies of a module, to read or to run. The original stays as it is, also for other threads that use it."""

from __future__ import annotations

import functools
import math
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from regionscope.checks import unreadable
from regionscope.errors import InputError
from regionscope.network.call.wrappers import inside_wrapper

Copied = TypeVar("Copied")

_CONTAINERS = (list, tuple, dict, OrderedDict)
_ATOMS = {bool, int, float, str, type(None)}  # they hold no other object
_DEPTH = 3  # levels of plain objects that are searched for parts of the tree
_TRIES = 10  # copies of weights that another thread keeps changing, before a mixture of two steps is accepted


@dataclass(frozen=True, eq=False)
class ModuleCopy:
    """A copied module, all the modules that were copied, those in plain lists too, and the ids of what was copied: the
    modules, parameters and buffers of the original. hooked: whether one of these modules has a hook of the user.
    """

    module: nn.Module
    parts: tuple[nn.Module, ...]
    originals: frozenset[int]
    hooked: bool


def readable_copy(module: nn.Module, dtype: torch.dtype, device: torch.device) -> ModuleCopy:
    """The tree of ``module`` copied: floating-point tensors cast to ``dtype``, eval mode, user hooks left out.

    The pre-forward hooks by which torch itself computes a weight (the older weight_norm and spectral_norm, pruning) are
    evaluated once, for the weight as it stands. Cost: one copy of the parameters.
    """
    check_whole(module)
    _check_tensors(module)
    return _copier_of(module, list(tensors_of(module).values()), dtype, device).copied(module)


def runnable_copy(module: nn.Module) -> nn.Module:
    """A copy of ``module`` in eval mode, with the same dtype, device and hooks; see ``runnable_parts``."""
    return runnable_parts(module).module


def runnable_parts(module: nn.Module) -> ModuleCopy:
    """The tree of ``module`` copied: eval mode, with the same dtype, device and hooks.

    Forward hooks run on the copy. Compiled code is left out, and so are the wrappers of data-parallel training and
    those of Accelerate and Lightning Fabric, which run the module in mixed precision. Cost: one copy of the parameters
    and buffers.
    """
    check_whole(module)
    tensors = tensors_of(module)
    for name, tensor in tensors.items():
        if nn.parameter.is_lazy(tensor):
            raise InputError(
                f"Expected an initialised module, but '{name}' has no shape yet. Run the module once on data."
            )
    copied = _copier_of(module, list(tensors.values())).copied(module)
    for part in copied.module.modules():
        part.training = False
    return copied


def weights_of(module: nn.Module, dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
    """Copies of all parameters and buffers by name."""
    check_whole(module)
    _check_tensors(module)
    tensors = tensors_of(module)
    return _without_writes(
        tensors.values(),
        lambda: {name: x.detach().to(device=device, dtype=dtype, copy=True) for name, x in tensors.items()},
    )


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers by name."""
    return dict(chain(module.named_parameters(), module.named_buffers()))


def _copier_of(
    module: nn.Module, tensors: list[Tensor], dtype: torch.dtype | None = None, device: torch.device | None = None
) -> _Copier:
    """A copier that has copied ``module``. tensors: its parameters and buffers."""

    def copy_module() -> _Copier:
        copier = _Copier(frozenset(map(id, chain(module.modules(), tensors))), dtype, device)
        with torch.no_grad():
            copier.copy(module)
        return copier

    return _without_writes(tensors, copy_module)


def _without_writes(tensors: Iterable[Tensor], copy: Callable[[], Copied]) -> Copied:
    """``copy()``, repeated while another thread writes to the tensors, so that all copies are of one moment."""
    tracked = [tensor for tensor in tensors if not tensor.is_inference()]
    for _ in range(_TRIES):
        versions = [tensor._version for tensor in tracked]
        copied = copy()
        if versions == [tensor._version for tensor in tracked]:
            break
    return copied


def all_finite(tensor: Tensor) -> bool:
    """Whether a floating-point tensor holds neither NaN nor infinity. One pass over memory, without temporaries."""
    if tensor.numel() == 0:
        return True
    return all(map(math.isfinite, tensor.detach().aminmax()))  # both are NaN where one entry is


def memory_key(tensor: Tensor) -> tuple[object, ...]:
    """Equal for tensors that read the same memory in the same way."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def check_whole(module: nn.Module) -> None:
    """Refuse weights that are split over processes: one process has a part, and reading it waits for the others."""
    kinds = {type(part).__name__ for part in chain(module.modules(), module.parameters(), module.buffers())}
    if kinds & {"FullyShardedDataParallel", "DTensor"}:
        raise InputError(
            "Expected a model whose weights are all in this process, got weights that are split over processes (FSDP "
            "or tensor parallelism). Gather them in all processes with get_model_state_dict of "
            "torch.distributed.checkpoint.state_dict, load them into a model that is not split, and measure that one."
        )


def _check_tensors(module: nn.Module) -> None:
    for noun, tensors in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
        for name, tensor in tensors:
            if nn.parameter.is_lazy(tensor):
                raise InputError(
                    f"Expected an initialised module, but {noun} '{name}' has no shape yet. Run the module once on "
                    "data."
                )
            if refused := unreadable(tensor):
                raise InputError(f"Expected {noun} '{name}' to hold real numbers, got {refused}")
            if tensor.is_floating_point() and not all_finite(tensor):
                raise InputError(
                    f"Expected finite weights, got NaN or infinity in {noun} '{name}'. "
                    "Load weights from before the training diverged."
                )


class _Copier:
    """Copies a tree of modules, and every list, method, closure or plain object in it that holds a part of the tree.

    tree: ids of its modules, parameters and buffers.
    dtype: of floating-point tensors, or None to run the copy: then dtypes, devices and hooks stay.
    """

    def __init__(self, tree: frozenset[int], dtype: torch.dtype | None, device: torch.device | None) -> None:
        self.dtype = dtype
        self.device = device
        self.copies: dict[int, Any] = {}
        self.originals: list[Any] = []  # keeps the originals alive, so that their ids stay theirs
        self.tree = tree
        self._hooked = False
        self._depth = 0

    def copied(self, module: nn.Module) -> ModuleCopy:
        """The copy of ``module``, with its parts."""
        root = self.copy(module)
        parts = tuple({id(x): x for x in self.copies.values() if isinstance(x, nn.Module)}.values())
        return ModuleCopy(root, parts, self.tree, self._hooked)

    def copy(self, value: Any) -> Any:
        """The copy of a value that a module holds; equal objects stay equal (tied weights, shared layers)."""
        if type(value) in _ATOMS:
            return value
        if id(value) in self.copies:
            return self.copies[id(value)]
        if type(value) in _CONTAINERS and not value:  # most of what a module holds
            return self._remember(value, type(value)())
        if isinstance(value, nn.Module):
            return self._copy_module(value)
        if isinstance(value, Tensor):
            return self._remember(value, self._copy_tensor(value))
        if type(value) in _CONTAINERS:
            return self._copy_container(value, self.copy)
        return self._copy_if_linked(value)

    def _remember(self, original: Any, copied: Any) -> Any:
        self.originals.append(original)
        self.copies[id(original)] = copied
        return copied

    def _copy_tensor(self, tensor: Tensor) -> Tensor:
        if self.dtype is None:
            copied, trained = tensor.detach().clone(), tensor.requires_grad
        else:
            dtype = self.dtype if tensor.is_floating_point() else tensor.dtype
            copied, trained = tensor.detach().to(device=self.device, dtype=dtype, copy=True), False
        return nn.Parameter(copied, requires_grad=trained) if isinstance(tensor, nn.Parameter) else copied

    def _copy_container(self, container: Any, copy: Callable[[Any], Any]) -> Any:
        if isinstance(container, tuple):
            return self._remember(container, tuple(copy(item) for item in container))
        if isinstance(container, list):
            items: list[Any] = self._remember(container, [])
            items.extend(copy(item) for item in container)
            return items
        entries: dict[Any, Any] = self._remember(container, type(container)())
        for key, item in container.items():
            entries[key] = copy(item)
        return entries

    def _copy_module(self, module: nn.Module) -> nn.Module:
        if isinstance(module, torch.jit.ScriptModule):
            return self._remember(module, deepcopy(module))  # type: ignore[no-any-return]
        self._hooked |= has_hooks(module)
        if (inner := inside_wrapper(module)) is not None:
            return self._copy_hooks(module, self._remember(module, self.copy(inner)))
        copied: nn.Module = self._remember(module, object.__new__(type(module)))
        state = copied.__dict__
        for key, item in module.__dict__.items():
            state[key] = type(item)() if self.dtype is not None and _is_hooks(key, item) else self.copy(item)
        state["_compiled_call_impl"] = None
        if getattr(module.__dict__.get("forward"), "__module__", "") == "accelerate.utils.operations":
            state["forward"] = state["_original_forward"]  # Accelerate has replaced it by one in mixed precision
        self._copy_methods(module, copied)
        if self.dtype is not None:
            state["training"] = False
            for hook in module._forward_pre_hooks.values():
                compute_weight(hook, copied)
        elif isinstance(copied, nn.RNNBase):
            copied.flatten_parameters()
        return copied

    def _copy_hooks(self, wrapper: nn.Module, copied: nn.Module) -> nn.Module:
        """``copied``, which stands for the wrapper too, with the hooks of both where hooks run."""
        for key, item in wrapper.__dict__.items() if self.dtype is None else ():
            if _is_hooks(key, item):
                copied.__dict__[key].update(self.copy(item))
        return copied

    def _copy_methods(self, module: nn.Module, copied: nn.Module) -> None:
        """Methods of the user's classes that name a module of the tree as a global or enclosing variable."""
        for kind in type(module).__mro__:
            if kind is object or kind.__module__.startswith("torch."):
                continue
            for name, method in vars(kind).items():
                if isinstance(method, types.FunctionType) and name not in copied.__dict__:
                    copied_method = self._copy_function(method)
                    if copied_method is not method:
                        copied.__dict__[name] = types.MethodType(copied_method, copied)

    # An object that is no part of the tree is copied only if it holds one, directly or through other objects.

    def _copy_if_linked(self, value: Any) -> Any:
        """``value``, or its copy if it holds a module, parameter or buffer of the tree."""
        if id(value) in self.tree or id(value) in self.copies:
            return self.copy(value)
        if isinstance(value, types.MethodType):
            owner, function = self._copy_if_linked(value.__self__), self._copy_if_linked(value.__func__)
            changed = owner is not value.__self__ or function is not value.__func__
            return types.MethodType(function, owner) if changed else value
        if isinstance(value, types.FunctionType):
            return self._copy_function(value)
        if type(value) is functools.partial:
            parts = (value.func, value.args, value.keywords)
            copies = [self._copy_if_linked(part) for part in parts]
            changed = any(a is not b for a, b in zip(copies, parts, strict=True))
            return functools.partial(copies[0], *copies[1], **copies[2]) if changed else value
        if type(value) in _CONTAINERS:
            return self._copy_container_if_linked(value, value.values() if isinstance(value, dict) else value)
        if _is_plain(value):
            return self._copy_object_if_linked(value)
        return value

    def _copy_container_if_linked(self, container: Any, items: Any) -> Any:
        self._remember(container, container)  # for a container that holds itself
        changed = [item for item in items if self._copy_if_linked(item) is not item]
        return self._copy_container(container, self._copy_if_linked) if changed else container

    def _copy_object_if_linked(self, value: Any) -> Any:
        self._remember(value, value)  # for an object that leads back to itself
        if self._depth == _DEPTH:
            return value
        self._depth += 1
        state = {key: self._copy_if_linked(item) for key, item in vars(value).items()}
        self._depth -= 1
        if all(state[key] is item for key, item in vars(value).items()):
            return value
        copied = self._remember(value, object.__new__(type(value)))
        copied.__dict__.update(state)
        return copied

    def _copy_function(self, function: types.FunctionType) -> types.FunctionType:
        """The function with the copies in place of the modules that its closure, defaults or globals name.

        Of a function that torch.compile made, the original.
        """
        if (original := getattr(function, "_torchdynamo_orig_callable", None)) is not None:
            if getattr(original, "__globals__", {}).get("__name__") == "torch._dynamo.external_utils":
                original = original.__wrapped__  # torch wraps its own functions once more
            return self._copy_if_linked(original)  # type: ignore[no-any-return]
        if id(function) in self.copies or function.__module__ is None or function.__module__.startswith("torch."):
            return self.copies.get(id(function), function)  # type: ignore[no-any-return]
        self._remember(function, function)
        cells = function.__closure__ or ()
        copied_cells = tuple(self._copy_cell(cell) for cell in cells)
        defaults, keywords = self._copy_if_linked(function.__defaults__), self._copy_if_linked(function.__kwdefaults__)
        names = [name for name in _names(function.__code__) if id(function.__globals__.get(name)) in self.tree]
        if (
            not names
            and all(a is b for a, b in zip(cells, copied_cells, strict=True))
            and defaults is function.__defaults__
            and keywords is function.__kwdefaults__
        ):
            return function
        scope = function.__globals__
        if names:
            scope = {**scope, **{name: self.copy(scope[name]) for name in names}}
        copied = types.FunctionType(function.__code__, scope, function.__name__, defaults, copied_cells)
        copied.__kwdefaults__ = keywords
        copied.__dict__.update(function.__dict__)
        return self._remember(function, copied)  # type: ignore[no-any-return]

    def _copy_cell(self, cell: types.CellType) -> types.CellType:
        try:
            content = cell.cell_contents
        except ValueError:  # not assigned yet
            return cell
        copied = self._copy_if_linked(content)
        return cell if copied is content else types.CellType(copied)


_HOOKS = ("_hooks", "_always_called", "hooks_with_kwargs")


def _is_hooks(key: str, item: Any) -> bool:
    return isinstance(item, dict) and key.startswith("_") and key.endswith(_HOOKS)


def _is_plain(value: Any) -> bool:
    """An object of a class written in Python that does nothing when it is made or deleted: ``Helper(model)``."""
    kind = type(value)
    return (
        not isinstance(value, type | types.ModuleType | nn.Module | Tensor)
        and kind.__flags__ & 1 << 9 != 0
        and hasattr(value, "__dict__")
        and "__new__" not in {name for base in kind.__mro__[:-1] for name in vars(base)}
        and not hasattr(kind, "__del__")
    )


def _names(code: types.CodeType) -> Iterator[str]:
    """The global names that a function uses, those of the functions inside it too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def has_hooks(module: nn.Module) -> bool:
    """Whether the module has a forward hook or pre-hook, other than those by which torch computes a weight."""
    return bool(module._forward_hooks) or not all(
        isinstance(hook, WeightNorm | SpectralNorm | BasePruningMethod) for hook in module._forward_pre_hooks.values()
    )


def compute_weight(hook: Any, copied: nn.Module) -> None:
    """Run a hook by which torch computes a weight of ``copied``; no other hook."""
    if isinstance(hook, WeightNorm):
        copied.__dict__[hook.name] = hook.compute_weight(copied)
    elif isinstance(hook, SpectralNorm):
        copied.__dict__[hook.name] = hook.compute_weight(copied, do_power_iteration=False)
    elif isinstance(hook, BasePruningMethod):
        copied.__dict__[hook._tensor_name] = hook.apply_mask(copied)
