"""Following a forward with the stand-ins of torch.fx and recording each call by its rule."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from regionscope.errors import NotPiecewiseAffine, RegionscopeError, UntraceableModel
from regionscope.formatting import counted, with_article
from regionscope.network import refuse
from regionscope.network.private_copy import ModuleCopy
from regionscope.network.proxy import PURE, ForwardTracer, Storage, Traced, traced
from regionscope.network.record import RULES, SMOOTH_RULES, Call, Choice, Data, Pending, Recorder, Refused, Rule
from regionscope.network.rules.choices import on_sides
from regionscope.network.rules.heads import Head, head_of


class Reader(ForwardTracer):
    """An fx Tracer that knows shapes: each call is looked up among the rules and recorded.

    Every module's own forward is followed, torch.nn's too, so that one rule for ``F.conv2d`` serves the function, the
    layer and the layers derived from it. Calls that do not touch the input run as they are, on the private copy.
    ``fx.Tracer.trace`` is not used: it patches ``nn.Module`` itself, for all threads. Here each copied module has its
    own call instead.
    """

    _overwritten: Overwritten  # while the forward is followed

    def __init__(
        self, copied: ModuleCopy, input_shape: tuple[int, ...], recorder: Recorder, *, order_only: bool = False
    ) -> None:
        """order_only: whether the order of the outputs is all that is needed, so that a head is left out."""
        module = copied.module
        self.order_only, self.note = order_only, ""
        self.graph = fx.Graph()
        self.recorder, self.blanks = recorder, {}
        self.input = Data("x", input_shape)
        self._paths = {id(child): path for path, child in module.named_modules()}
        tensors = [*module.parameters(), *module.buffers()]
        self._weight_ids = {id(tensor) for tensor in tensors}
        if recorder.dtype == torch.float64:  # a cast to float32 may overflow
            recorder.finite.update((tensor.data_ptr(), tensor.numel()) for tensor in tensors)
        self._scope: list[nn.Module] = []
        self.failed_in = ""
        self._refusal: RegionscopeError | None = None

    def read(self, copied: ModuleCopy) -> Data:
        """Follow the forward of the copy; return the value it returns.

        Afterwards the copy and the reader do not refer to each other. In a reference cycle, both would stay in memory
        with all weights until Python collects cycles.
        """
        self._overwritten = Overwritten(self._refuse_overwritten, copied.originals, self._refuse_original)
        for child in copied.parts:  # nn.Module.__call__ looks here first
            child.__dict__["_compiled_call_impl"] = functools.partial(self._call_module, child)
        try:
            with MixedDtypes(self.recorder.dtype), self._overwritten:
                result = copied.module(Traced(self.graph.placeholder("x"), self, self.input))
        finally:
            del self._overwritten
            for child in copied.parts:
                child.__dict__["_compiled_call_impl"] = None
            if self._refusal is not None:
                raise self._refusal
        if not isinstance(result, Traced):
            refusals = [item.refusal for item in tree_leaves(result) if isinstance(item, Traced)]
            if refusals and all(refusals):  # no choice of an output would help
                raise refusals[0]  # type: ignore[misc]
            raise UntraceableModel(_bad_output(result))
        if self.order_only and result.head is not None and result.head.decides():
            self.note = result.head.note
            return result.head.of  # type: ignore[no-any-return]
        value = self._without_jumps(self._unwrap(result))
        if isinstance(value, Pending):
            raise value.refusal
        return value  # type: ignore[no-any-return]

    def _call_module(self, m: nn.Module, *args: Any, **kwargs: Any) -> Any:
        """Follow ``m.forward`` itself, without the hooks that ``m(...)`` would run."""
        reason = refuse.layer_reason(m)
        self._scope.append(m)
        try:
            if reason is not None:
                raise NotPiecewiseAffine(refuse.not_affine(self._subject(type(m).__name__), reason))
            return m.forward(*args, **kwargs)
        except Exception:
            self.failed_in = self.failed_in or self.where()
            raise
        finally:
            self._scope.pop()

    def create_proxy(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *_: Any, **__: Any
    ) -> Any:
        """What an fx Proxy calls for each operation."""
        return self.apply(kind, target, args, kwargs)

    # recording

    def apply(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record one call and return what it returns to the user's forward.

        A function of ``PURE`` that has no rule for its arguments returns a tensor whose use is refused. The refusal of
        any other call stands, even if the forward, or an operator of torch that tries its mirror image,
        catches it.
        """
        try:
            return self._apply(kind, target, args, kwargs)
        except RegionscopeError as error:
            first = next(filter(None, (value.refusal for value in traced((*args, *kwargs.values())))), error)
            if isinstance(first, NotPiecewiseAffine | UntraceableModel) and _is_pure(kind, target, kwargs):
                tensor = self._refused(self.graph.create_node(kind, target), first)
                tensor.head = self._head(kind, target, args, kwargs)
                return tensor
            self.refuse(first)

    def _head(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Head | None:
        """What is known of the order of a refused tensor; see ``heads``."""
        first, *rest = args or (kwargs.get("input"),)
        name = target if isinstance(target, str) else target.__name__
        if name in ("add", "mul") and not isinstance(first, Traced):  # 30 * tanh(x)
            first, rest = rest[0], [first]
        if not isinstance(first, Traced) or (first.refusal is not None and first.head is None):
            return None
        value = first.head or first.data_value
        if next(traced((*rest, *kwargs.values())), None) is not None or isinstance(value, Pending):
            return None
        base_name = name.strip("_")
        layer = self._scope[-1] if self._scope else None
        label = type(layer).__name__ if _is_torch_layer(layer) else base_name
        rule = _find_rule(kind, target, name, base_name, RULES)
        if isinstance(value, Head) and rule is not None and rule.view:  # the same entries, or some of them
            of = rule.function(self._call(kind, target, name), value.of, *rest, **kwargs)
            return replace(value, of=of) if isinstance(of, Data) else None
        return head_of(base_name, value, kwargs.get("dim", rest[0] if rest else None), label)

    def _refused(self, node: fx.Node, error: RegionscopeError) -> Traced:
        tensor = Traced(node, self, self.input)
        tensor.refusal = error
        return tensor

    def refuse(self, error: RegionscopeError) -> NoReturn:
        """Raise the error. The first one stands, even if the forward catches it."""
        self._refusal = self._refusal or error
        raise error

    def _apply(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        base_name = name if name.startswith("__") else name.strip("_")
        in_place = name in _IN_PLACE or (name.endswith("_") and not name.endswith("__") and name not in RULES)
        rule = self._find_rule(kind, target, name, base_name)
        if rule is not None and in_place:
            return self.write(args[0], target, args, kwargs, rule)
        call = self._call(kind, target, name)
        if rule is None:
            for value in traced((*args, *kwargs.values())):
                if isinstance(value.data_value, Pending):
                    raise value.data_value.refusal
            self._no_rule(call, base_name)
        bound = self._bind(call, rule, args, kwargs)
        result = self._run_rule(call, rule, bound)
        first = next((x for x in (kwargs.get("input"), *args) if isinstance(x, Traced)), None)
        storage = first.storage if rule.view and first is not None else None
        if bound.arguments.get("inplace") and first is not None and result is not first.data_value:
            first.write(result, call.node)
            return first
        return self._wrap(result, call, storage, None if rule.may_copy else first)

    def write(
        self, tensor: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], rule: Rule | None = None
    ) -> Any:
        """Record an in-place call: ``tensor`` stands for the result from now on."""
        name = target if isinstance(target, str) else target.__name__
        call = self._call("call_method" if isinstance(target, str) else "call_function", target, name)
        rule = rule or self._find_rule("call_function", target, name, name)
        assert rule is not None
        if not isinstance(tensor, Traced) and id(tensor) in self._weight_ids:
            raise UntraceableModel(
                f"Expected a forward that does not change its weights, but {call.subject} and changes a parameter or "
                f"buffer in place{self.where()}. Use the out-of-place form of the operation."
            )
        result = self._run_rule(call, rule, self._bind(call, rule, args, kwargs))
        if not isinstance(tensor, Traced):
            self._overwritten.note(tensor)
            return self._wrap(result, call, None, None)
        if result.shape != tensor.data_value.shape:
            call.refuse_shapes("an in-place operation cannot change the shape", tensor.data_value)
        tensor.write(result, call.node)
        return tensor

    def where(self) -> str:
        """in 'path' (Type), for the end of a sentence; empty at the top level."""
        path = self._paths.get(id(self._scope[-1]), "") if self._scope else ""
        return f" in '{path}' ({type(self._scope[-1]).__name__})" if path else ""

    def _call(self, kind: str, target: Any, name: str) -> Call:
        layer = self._scope[-1] if self._scope else None
        path = self._paths.get(id(layer), "") if _is_torch_layer(layer) else ""
        base_name = name.strip("_")
        node = self.graph.create_node(kind, target, name=path.replace(".", "_") or base_name)
        if path:
            layer_type = _original_type(layer).__name__
            return Call(self.recorder, node, f"'{path}' is {layer_type}", path, layer_type, self.input.shape)
        label = f"{self._paths.get(id(layer), '')}.{base_name}".lstrip(".")
        fold_kind = _MODULES.get(base_name.replace("_", ""), base_name)  # max_pool2d: MaxPool2d
        called = f"torch.Tensor.{name}" if kind == "call_method" else _full_name(target)
        subject = f"'{node.name}'{self.where()} calls {called}"
        return Call(self.recorder, node, subject, label, fold_kind, self.input.shape)

    def _subject(self, kind: str) -> str:
        path = self._paths.get(id(self._scope[-1]), "")
        return f"'{path}' is {kind}" if path else f"the module is {kind}"

    def _bind(self, call: Call, rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        signature = _signature(rule.function)
        plain_args = [self._unwrap(x) for x in args]
        plain_kwargs = {key: self._unwrap(x) for key, x in kwargs.items()}
        named = {name for name, p in signature.parameters.items() if p.kind is not p.VAR_POSITIONAL}
        for key in [key for key in plain_kwargs if key in _POSITIONAL and key not in named]:
            plain_args.insert(0 if key == "input" else len(plain_args), plain_kwargs.pop(key))
        try:
            bound = signature.bind(call, *plain_args, **plain_kwargs)
        except TypeError as error:
            detail = f" with these arguments ({error})"
            raise NotPiecewiseAffine(refuse.no_rule(call.subject + self._line(), detail)) from error
        for name, given in bound.arguments.items():
            value = bound.arguments[name] = self._without_jumps(given, rule)
            values = _data_values(value)
            for x in values:
                if isinstance(x, Pending) and not (isinstance(x, rule.takes) or (rule.sidewise and _is_choice(x))):
                    raise x.refusal
            if values and name not in rule.data:
                call.refuse_product()
            if not rule.any_axis and any(x.axis for x in values):
                call.refuse_row_mixing()
        return bound

    def _without_jumps(self, value: Any, rule: Rule | None = None) -> Any:
        """The value with choices recorded that the rule does not understand, where jumps are allowed."""
        if isinstance(value, list) or type(value) is tuple:
            return type(value)(self._without_jumps(item, rule) for item in value)
        if not isinstance(value, Pending) or value.resolved is None or not self.recorder.jumps:
            return value
        if rule is not None and (isinstance(value, rule.takes) or (rule.sidewise and _is_choice(value))):
            return value
        return self.recorder.with_jump(value)

    def _run_rule(self, call: Call, rule: Rule, bound: inspect.BoundArguments) -> Any:
        try:
            if rule.sidewise and any(map(_is_choice, bound.arguments.values())):
                return on_sides(call, rule.function, bound)
            return rule.function(*bound.args, **bound.kwargs)
        except RegionscopeError:
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            values = [x for value in bound.arguments.values() for x in _data_values(value)]
            call.refuse_shapes(str(error), *values)

    def _unwrap(self, value: Any) -> Any:
        if isinstance(value, Traced):
            if value.refusal is not None:
                raise value.refusal
            if value.version != value.storage.version:
                raise UntraceableModel(
                    f"Expected tensors that keep their values, but the forward{self.where()} reads '{value.node.name}' "
                    "after an in-place operation has changed its memory through another view. Use the out-of-place "
                    "form of that operation."
                )
            return value.data_value
        if isinstance(value, list | tuple):
            items = [self._unwrap(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, slice):
            return slice(*(self._unwrap(part) for part in (value.start, value.stop, value.step)))
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value.copy())  # which may not be writeable or have negative strides
        return int(value) if isinstance(value, np.integer) else value

    def _wrap(self, result: Any, call: Call, storage: Storage | None, first: Traced | None) -> Any:
        if isinstance(result, Data):
            if first is not None and result is first.data_value and storage is not None:
                return first
            return Traced(call.node, self, result, storage)
        if isinstance(result, Refused):
            return self._refused(call.node, NotPiecewiseAffine(refuse.not_affine(call.subject, result.reason)))
        if isinstance(result, tuple) and any(isinstance(item, Data | Refused) for item in result):
            items = [self._wrap(item, call, storage, None) for item in result]
            return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
        return result

    def _refuse_overwritten(self) -> NoReturn:
        self.refuse(
            UntraceableModel(
                f"Expected tensors that keep their values, but the forward{self.where()} reads a tensor after an "
                "in-place operation has written values of the input into it. Use the out-of-place form of that "
                "operation (h = h + y)."
            )
        )

    def _refuse_original(self) -> NoReturn:
        self.refuse(
            UntraceableModel(
                f"Expected parameters and buffers that are attributes of self, but the forward{self.where()} reads one "
                "through another object, such as a global. Read it through self."
            )
        )

    def _find_rule(self, kind: str, target: Any, name: str, base_name: str) -> Rule | None:
        rule = _find_rule(kind, target, name, base_name, SMOOTH_RULES) if self.recorder.smooth else None
        return rule or _find_rule(kind, target, name, base_name, RULES)

    def _no_rule(self, call: Call, name: str) -> NoReturn:
        if name in refuse.REASONS:
            call.refuse(refuse.REASONS[name])
        raise NotPiecewiseAffine(refuse.no_rule(call.subject + self._line()))

    @staticmethod
    def _line() -> str:
        """in line 12 of net.py (Net.forward): the innermost line of the user's code; empty if there is none."""
        frame = sys._getframe(1)
        while frame.f_code is not Reader.read.__code__ and frame.f_back is not None:
            path = frame.f_code.co_filename
            if not path.startswith((*_LIBRARIES, "<")):
                return f" in line {frame.f_lineno} of {os.path.basename(path)} ({frame.f_code.co_qualname})"
            frame = frame.f_back
        return ""


_POSITIONAL = ("input", "other", "size", "shape", "dims", "repeats")  # rules take these by position alone
_signature = functools.cache(inspect.signature)  # of the rules, which are few
_IN_PLACE = {"__iadd__", "__isub__", "__imul__", "__itruediv__"}
_LIBRARIES = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)
_MODULES = {name.lower(): name for name in nn.modules.__all__}


def _find_rule(kind: str, target: Any, name: str, base_name: str, table: dict[object, Rule]) -> Rule | None:
    if kind == "call_method":
        function = getattr(torch.Tensor, name, None)
    else:
        function = target
        if not _is_torch(target):
            return None
    try:
        return table.get(function) or table.get(name) or table.get(base_name)
    except TypeError:  # unhashable callables have no rule
        return None


def _is_torch(target: Any) -> bool:
    module = getattr(target, "__module__", None) or ""
    return module.split(".")[0] in {"", "torch", "_operator", "builtins"}


def _full_name(target: Any) -> str:
    name = getattr(target, "__name__", str(target))
    package, _, rest = name.partition("_")
    if package in ("fft", "linalg") and hasattr(getattr(torch, package), rest):
        return f"torch.{package}.{rest}"
    if hasattr(torch.nn.functional, name):
        return f"torch.nn.functional.{name}"
    if hasattr(torch, name):
        return f"torch.{name}"
    return f"{getattr(target, '__module__', 'torch')}.{name}"


def _original_type(module: nn.Module | None) -> type:
    """The type of a module, before torch.nn.utils.parametrize gave it a subclass of its own."""
    kind = type(module)
    return kind.__mro__[1] if kind.__module__ == "torch.nn.utils.parametrize" else kind


def _is_torch_layer(module: nn.Module | None) -> bool:
    """Whether a fold inside ``module`` is named after it: torch.nn's own layers, as in fx."""
    return isinstance(module, nn.Module) and _original_type(module).__module__.startswith("torch.nn")


def _is_pure(kind: str, target: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a call is one of ``PURE`` and writes to no tensor."""
    known = kind == "call_method" or ((inspect.isfunction(target) or inspect.isbuiltin(target)) and _is_torch(target))
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    return known and name in PURE and kwargs.get("out") is None


def _is_choice(value: Any) -> bool:
    return isinstance(value, Choice)


def _data_values(value: Any) -> list[Data]:
    if isinstance(value, Data):
        return [value]
    if isinstance(value, list | tuple):
        return [x for item in value for x in _data_values(item)]
    return []


def _bad_output(result: Any) -> str:
    if isinstance(result, tuple | list | dict):
        returned = f"{with_article(type(result).__name__)} of {counted(len(result), 'value')}"
    elif isinstance(result, Tensor):
        returned = "a tensor that does not depend on the input"
    else:
        returned = f"a value of type {type(result).__name__}"
    how = "a name, an index or a function"
    if isinstance(result, dict):
        how = f"one of {', '.join(map(repr, result))}"
    elif isinstance(result, tuple) and hasattr(result, "_fields"):
        how = f"one of {', '.join(map(repr, result._fields))}"
    elif isinstance(result, tuple | list) and result:
        how = f"an index from 0 to {len(result) - 1}"
    return f"Expected one output tensor, but the module returns {returned}. Choose it with output=: {how}."


# Constants that a forward makes in float32, beside weights that are read in float64.


class MixedDtypes(TorchFunctionMode):
    """While it is open, functions take constants of several floating-point dtypes and compute in ``dtype``.

    ``h = torch.zeros(1, 3)``, the first state of a recurrent network, is float32. Its weights are read in float64, and
    torch refuses to multiply the two. In-place functions are left alone: a cast would write into a copy.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = (tuple(args), dict(kwargs or {}))
        try:
            return func(*given[0], **given[1])
        except RuntimeError:
            constants = [x for x in tree_leaves(given) if _is_real_constant(x)]
            if func.__name__.endswith("_") or len({x.dtype for x in constants}) < 2:
                raise
            args, named = tree_map(lambda x: x.to(self._dtype) if _is_real_constant(x) else x, given)
            return func(*args, **named)


def _is_real_constant(value: Any) -> bool:
    return isinstance(value, Tensor) and not isinstance(value, Traced) and value.is_floating_point()


# Tensors that a forward must not read: constants it has written the input into, and those of the original module.


class Overwritten(TorchFunctionMode):
    """While it is open, no call may read memory that was ``noted``: it still holds what was there before the write.

    ``h = torch.zeros(n); h += f(x)`` is allowed: ``h`` is the result from then on. ``g = h`` before it, or
    ``h.add_(f(x))`` without taking its result, keeps a tensor that only a run of the network could fill.
    on_read: raises the refusal. originals: ids of the tensors of the user's own module, which the forward of its copy
    reaches only by a way that the copy does not know. on_original: raises the refusal of these.
    """

    def __init__(
        self, on_read: Callable[[], NoReturn], originals: frozenset[int], on_original: Callable[[], NoReturn]
    ) -> None:
        super().__init__()
        self._on_read = on_read
        self._originals = originals
        self._on_original = on_original
        self._noted: dict[int, Tensor] = {}  # keeps them alive, so that their memory stays theirs

    def note(self, tensor: Tensor) -> None:
        """A value that depends on the input has been written into ``tensor``."""
        self._noted[tensor.untyped_storage().data_ptr()] = tensor

    def __torch_function__(
        self, func: Any, types: Any, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        for tensor in _tensors((*args, *named.values())):
            if id(tensor) in self._originals:
                self._on_original()
            if self._noted and tensor.untyped_storage().data_ptr() in self._noted:
                self._on_read()
        return func(*args, **named)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _tensors(value)
        elif isinstance(value, Tensor) and not isinstance(value, Traced):
            yield value
