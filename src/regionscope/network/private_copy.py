"""Private copies of a module, to read or to run. The original stays as it is, also for other threads that use it."""

from __future__ import annotations

import functools
import math
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from regionscope.checks import unreadable
from regionscope.errors import InputError

_CONTAINERS = (list, tuple, dict, OrderedDict)
_ATOMS = {bool, int, float, str, type(None)}  # they lead nowhere
_DEPTH = 3  # plain objects inside each other that are searched for a way back to the tree
_TRIES = 10  # copies of weights that another thread keeps changing, before a mixture of two steps is accepted


@dataclass(frozen=True, eq=False)
class ReadableCopy:
    """A copied module, all the modules that were copied, those in plain lists too, and the ids of what was copied: the
    modules, parameters and buffers of the original.
    """

    module: nn.Module
    parts: tuple[nn.Module, ...]
    originals: frozenset[int]


def readable_copy(module: nn.Module, dtype: torch.dtype, device: torch.device) -> ReadableCopy:
    """The tree of ``module`` copied: floating-point tensors cast to ``dtype``, eval mode, user hooks left out.

    Hooks do not fire and so cannot change the result; the pre-forward hooks by which torch itself computes a weight
    (the older weight_norm and spectral_norm, pruning) are evaluated once, for the weight as it stands. Cost: one copy
    of the parameters.
    """
    _check_tensors(module)
    copier = _snapshot(module, dtype, device)
    parts = tuple(value for value in copier.done.values() if isinstance(value, nn.Module))
    return ReadableCopy(copier.value(module), parts, copier.tree)


def runnable_copy(module: nn.Module) -> nn.Module:
    """A copy of ``module`` in eval mode and without compiled code, with the same dtype, device and hooks.

    Forward hooks run on the copy. Cost: one copy of the parameters and buffers.
    """
    for name, tensor in chain(module.named_parameters(), module.named_buffers()):
        if nn.parameter.is_lazy(tensor):
            raise InputError(
                f"Expected an initialised module, but '{name}' has no shape yet. Run the module once on data."
            )
    copied: nn.Module = _snapshot(module).value(module)
    for part in copied.modules():
        part.training = False
    return copied


def _snapshot(module: nn.Module, dtype: torch.dtype | None = None, device: torch.device | None = None) -> _Copier:
    """A copy of the module, repeated while another thread writes to its tensors, so that all are of one moment."""
    found = [*module.parameters(), *module.buffers()]
    tensors = [tensor for tensor in found if not tensor.is_inference()]
    for _ in range(_TRIES):
        versions = [tensor._version for tensor in tensors]
        with torch.no_grad():
            copier = _Copier(frozenset(map(id, chain(module.modules(), found))), dtype, device)
            copier.value(module)
        if versions == [tensor._version for tensor in tensors]:
            break
    return copier


def weights_of(module: nn.Module, dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
    """Copies of all parameters and buffers by name, of one moment like those of ``readable_copy``."""
    _check_tensors(module)
    tensors = dict(chain(module.named_parameters(), module.named_buffers()))
    for _ in range(_TRIES):
        versions = [tensor._version for tensor in tensors.values() if not tensor.is_inference()]
        copied = {name: tensor.detach().to(device=device, dtype=dtype, copy=True) for name, tensor in tensors.items()}
        if versions == [tensor._version for tensor in tensors.values() if not tensor.is_inference()]:
            break
    return copied


def all_finite(tensor: Tensor) -> bool:
    """Whether a floating-point tensor holds neither NaN nor infinity. One pass over memory, without temporaries."""
    if tensor.numel() == 0:
        return True
    return all(map(math.isfinite, tensor.detach().aminmax()))  # both are NaN where one entry is


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
    """Copies a tree of modules, and whatever in it leads back to the tree: lists, methods, closures, plain objects.

    tree: ids of its modules, parameters and buffers.
    dtype: of floating-point tensors, or None to run the copy: then dtypes, devices and hooks stay.
    """

    def __init__(self, tree: frozenset[int], dtype: torch.dtype | None, device: torch.device | None) -> None:
        self.dtype = dtype
        self.device = device
        self.done: dict[int, Any] = {}
        self.kept: list[Any] = []  # keeps the originals alive, so that their ids stay theirs
        self.tree = tree
        self._depth = 0

    def value(self, value: Any) -> Any:
        """The copy of a value that a module holds; equal objects stay equal (tied weights, shared layers)."""
        if type(value) in _ATOMS:
            return value
        if id(value) in self.done:
            return self.done[id(value)]
        if isinstance(value, nn.Module):
            return self._module(value)
        if isinstance(value, Tensor):
            return self._remember(value, self._tensor(value))
        if type(value) in _CONTAINERS:
            return self._container(value, self.value)
        return self._led_back(value)

    def _remember(self, original: Any, copied: Any) -> Any:
        self.kept.append(original)
        self.done[id(original)] = copied
        return copied

    def _tensor(self, tensor: Tensor) -> Tensor:
        if self.dtype is None:
            copied, trained = tensor.detach().clone(), tensor.requires_grad
        else:
            dtype = self.dtype if tensor.is_floating_point() else tensor.dtype
            copied, trained = tensor.detach().to(device=self.device, dtype=dtype, copy=True), False
        return nn.Parameter(copied, requires_grad=trained) if isinstance(tensor, nn.Parameter) else copied

    def _container(self, container: Any, copy: Callable[[Any], Any]) -> Any:
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

    def _module(self, module: nn.Module) -> nn.Module:
        if isinstance(module, torch.jit.ScriptModule):
            return self._remember(module, deepcopy(module))  # type: ignore[no-any-return]
        compiled = module._modules.get("_orig_mod")
        if compiled is not None:  # torch.compile: its code runs the original
            return self._remember(module, self.value(compiled))  # type: ignore[no-any-return]
        copied: nn.Module = self._remember(module, object.__new__(type(module)))
        state = copied.__dict__
        for key, item in module.__dict__.items():
            is_hooks = isinstance(item, dict) and key.startswith("_") and key.endswith(_HOOKS)
            state[key] = type(item)() if is_hooks and self.dtype is not None else self.value(item)
        state["_compiled_call_impl"] = None
        self._methods(module, copied)
        if self.dtype is not None:
            state["training"] = False
            for hook in module._forward_pre_hooks.values():
                _compute_weight(hook, copied)
        elif isinstance(copied, nn.RNNBase):
            copied.flatten_parameters()
        return copied

    def _methods(self, module: nn.Module, copied: nn.Module) -> None:
        """Methods of the user's classes that name a module of the tree as a global or enclosing variable."""
        for kind in type(module).__mro__:
            if kind.__module__.startswith("torch."):
                continue
            for name, method in vars(kind).items():
                if isinstance(method, types.FunctionType) and name not in copied.__dict__:
                    own = self._function(method)
                    if own is not method:
                        copied.__dict__[name] = types.MethodType(own, copied)

    # what is no part of the tree is copied only where it leads back to the tree

    def _led_back(self, value: Any) -> Any:
        """``value``, or its copy if it holds a module, parameter or buffer of the tree."""
        if id(value) in self.tree or id(value) in self.done:
            return self.value(value)
        if isinstance(value, types.MethodType):
            owner, function = self._led_back(value.__self__), self._led_back(value.__func__)
            changed = owner is not value.__self__ or function is not value.__func__
            return types.MethodType(function, owner) if changed else value
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if type(value) is functools.partial:
            parts = (value.func, value.args, value.keywords)
            own = [self._led_back(part) for part in parts]
            changed = any(a is not b for a, b in zip(own, parts, strict=True))
            return functools.partial(own[0], *own[1], **own[2]) if changed else value
        if type(value) in _CONTAINERS:
            return self._if_changed(value, value.values() if isinstance(value, dict) else value)
        if _is_plain(value):
            return self._plain(value)
        return value

    def _if_changed(self, container: Any, items: Any) -> Any:
        self._remember(container, container)  # for a container that holds itself
        changed = [item for item in items if self._led_back(item) is not item]
        return self._container(container, self._led_back) if changed else container

    def _plain(self, value: Any) -> Any:
        self._remember(value, value)  # for an object that leads back to itself
        if self._depth == _DEPTH:
            return value
        self._depth += 1
        state = {key: self._led_back(item) for key, item in vars(value).items()}
        self._depth -= 1
        if all(state[key] is item for key, item in vars(value).items()):
            return value
        copied = self._remember(value, object.__new__(type(value)))
        copied.__dict__.update(state)
        return copied

    def _function(self, function: types.FunctionType) -> types.FunctionType:
        """The function with the copies in place of the modules that its closure, defaults or globals name."""
        if id(function) in self.done or function.__module__ is None or function.__module__.startswith("torch."):
            return self.done.get(id(function), function)  # type: ignore[no-any-return]
        self._remember(function, function)
        cells = function.__closure__ or ()
        own_cells = tuple(self._cell(cell) for cell in cells)
        defaults, keywords = self._led_back(function.__defaults__), self._led_back(function.__kwdefaults__)
        names = [name for name in _names(function.__code__) if id(function.__globals__.get(name)) in self.tree]
        if (
            not names
            and all(a is b for a, b in zip(cells, own_cells, strict=True))
            and defaults is function.__defaults__
            and keywords is function.__kwdefaults__
        ):
            return function
        scope = function.__globals__
        if names:
            scope = {**scope, **{name: self.value(scope[name]) for name in names}}
        own = types.FunctionType(function.__code__, scope, function.__name__, defaults, own_cells)
        own.__kwdefaults__ = keywords
        own.__dict__.update(function.__dict__)
        return self._remember(function, own)  # type: ignore[no-any-return]

    def _cell(self, cell: types.CellType) -> types.CellType:
        try:
            content = cell.cell_contents
        except ValueError:  # not assigned yet
            return cell
        own = self._led_back(content)
        return cell if own is content else types.CellType(own)


_HOOKS = ("_hooks", "_always_called", "hooks_with_kwargs")


def _is_plain(value: Any) -> bool:
    """An object of a class written in Python that does nothing when it is made or deleted: ``Helper(model)``."""
    kind = type(value)
    return (
        not isinstance(value, type | types.ModuleType | nn.Module | Tensor)
        and kind.__flags__ & 1 << 9 != 0
        and hasattr(value, "__dict__")
        and "__new__" not in {name for each in kind.__mro__[:-1] for name in vars(each)}
        and not hasattr(kind, "__del__")
    )


def _names(code: types.CodeType) -> Iterator[str]:
    """The global names that a function uses, those of the functions inside it too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _compute_weight(hook: Any, copied: nn.Module) -> None:
    if isinstance(hook, WeightNorm):
        copied.__dict__[hook.name] = hook.compute_weight(copied)
    elif isinstance(hook, SpectralNorm):
        copied.__dict__[hook.name] = hook.compute_weight(copied, do_power_iteration=False)
    elif isinstance(hook, BasePruningMethod):
        copied.__dict__[hook._tensor_name] = hook.apply_mask(copied)
