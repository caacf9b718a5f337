"""The stand-in for a tensor while a forward is read: an fx Proxy that knows its shape and who shares its memory."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self

import torch
from torch import fx

from regionscope.errors import RegionscopeError, UntraceableModel
from regionscope.network.record import Data, Recorder

if TYPE_CHECKING:
    _Tensor = object  # both bases say what an operator takes and returns, and they disagree
else:
    _Tensor = torch.Tensor


_PURE = "exp expm1 log log1p log2 sqrt rsqrt square pow reciprocal sigmoid logsigmoid tanh gelu softplus erf "
_PURE += "softmax log_softmax softmin logsumexp norm mean sum prod std var amax amin argmax argmin "
_PURE += "cross_entropy nll_loss mse_loss l1_loss binary_cross_entropy_with_logits kl_div "
_PURE += "mul truediv div add sub neg matmul mm gt lt ge le eq ne getitem float detach unsqueeze squeeze "
_PURE += "view reshape flatten atan arctan asinh arcsinh sinh softsign special_expit log_sigmoid"
PURE = frozenset(_PURE.split())
"""Functions, methods and operators that return one tensor and change nothing, not even by ``inplace=True``.

They may work on tensors that have no exact regions, as long as the output does not depend on these.
"""


class ForwardTracer(fx.proxy.TracerBase, ABC):
    """What a ``Traced`` tensor needs of the tracer that follows the forward; ``Reader`` implements it."""

    recorder: Recorder
    blanks: dict[tuple[int, ...], torch.Tensor]  # tensors without memory, by shape

    @abstractmethod
    def apply(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record one call and return what it returns to the user's forward."""

    @abstractmethod
    def write(self, tensor: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record an in-place call: ``tensor`` stands for the result from now on."""

    @abstractmethod
    def refuse(self, error: RegionscopeError) -> NoReturn:
        """Raise the error, which stands even if the forward catches it."""

    @abstractmethod
    def where(self) -> str:
        """in 'path' (Type), for the end of a sentence; empty at the top level."""


@dataclass(eq=False)
class Storage:
    """Memory that several tensors share; ``version`` goes up with each in-place write."""

    version: int = 0


_INTERNAL_METHODS = frozenset(("_needs_values", "_write_into"))  # they raise the refusal of a refused tensor
_FIELDS = frozenset(("node", "tracer", "data_value", "storage", "version", "refusal", "head"))  # found without a search


class Traced(fx.Proxy, _Tensor):
    """A tensor of the user's forward, seen as a batch of one row.

    It answers questions about shape, dtype and device at once, so that a forward may branch on them, and hands every
    operation to the reader. An in-place operation points this very object to the new value, and marks the other views
    of the same memory as stale. It is a true tensor, but one without memory: torch's C++ takes whatever says that it is
    a tensor for one, and crashes on a mere stand-in.
    """

    tracer: ForwardTracer

    def __new__(cls, node: fx.Node, tracer: ForwardTracer, data: Data, storage: Storage | None = None) -> Self:
        shape = data.seen_shape
        if shape not in tracer.blanks:
            tracer.blanks[shape] = torch.empty(shape, dtype=tracer.recorder.dtype, device="meta")
        return torch.Tensor._make_subclass(cls, tracer.blanks[shape])  # type: ignore[type-var]

    def __init__(self, node: fx.Node, tracer: ForwardTracer, data: Data, storage: Storage | None = None) -> None:
        super().__init__(node, tracer)
        self.data_value = data
        self.storage = Storage() if storage is None else storage
        self.version = self.storage.version
        self.refusal: RegionscopeError | None = None  # raised when the tensor is used
        self.head: Any = None  # what is known of its order all the same; see ``rules.heads``

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As in fx, but without its look-up of methods, which changes the filters of warnings for all threads."""
        named = kwargs or {}
        tracer = next(traced((*args, *named.values()))).tracer
        name = orig_method.__name__
        if getattr(torch.Tensor, name, None) is orig_method or name == "__get__":
            return tracer.create_proxy("call_method", name, args, named)
        return tracer.create_proxy("call_function", orig_method, args, named)

    def __getattribute__(self, k: str) -> Any:
        """What a tensor can do is recorded when called, unless it is answered here. A refused one answers nothing."""
        refusal = super().__getattribute__("__dict__").get("refusal")
        if refusal is not None and not (k in _FIELDS or k in PURE or k in _INTERNAL_METHODS or k.startswith("__")):
            self.tracer.refuse(refusal)
        answered_here = k.startswith("_") or k in _FIELDS or k in vars(Traced) or k in vars(self)
        if answered_here or not hasattr(torch.Tensor, k):
            return super().__getattribute__(k)
        return fx.Proxy.__getattr__(self, k)

    def __getattr__(self, k: str) -> NoReturn:
        raise AttributeError(f"'Tensor' object has no attribute '{k}'")

    def __format__(self, spec: str) -> str:
        return repr(self)

    def write(self, data: Data, node: fx.Node) -> None:
        """An in-place operation has changed this tensor to ``data``."""
        self.data_value, self.node = data, node
        self.storage.version += 1
        self.version = self.storage.version

    shape = property(lambda self: torch.Size(self.data_value.seen_shape))
    ndim = property(lambda self: self.data_value.ndim)
    dtype = property(lambda self: getattr(self.data_value, "dtype", None) or self.tracer.recorder.dtype)
    device = property(lambda self: self.tracer.recorder.device)
    is_cuda = property(lambda self: self.tracer.recorder.device.type == "cuda")
    requires_grad = property(lambda self: False)
    grad = property(lambda self: None)
    data = property(lambda self: self.tracer.apply("call_method", "detach", (self,), {}))
    real = property(lambda self: self.tracer.apply("call_method", "real", (self,), {}))
    imag = property(lambda self: self.tracer.apply("call_method", "imag", (self,), {}))
    mT = property(lambda self: self.tracer.apply("call_method", "transpose", (self, -2, -1), {}))
    T = property(lambda self: self.tracer.apply("call_method", "permute", (self, *reversed(range(self.ndim))), {}))

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return self.data_value.ndim

    ndimension = dim

    def numel(self) -> int:
        return self.data_value.numel

    nelement = numel

    def is_floating_point(self) -> bool:
        return True

    def is_complex(self) -> bool:
        return False

    def is_contiguous(self, **_: Any) -> bool:
        return True

    def __len__(self) -> int:
        return int(self.shape[0])

    def __bool__(self) -> bool:
        self._needs_values("branches on the values of a tensor")

    def __iter__(self) -> Iterator[Any]:
        if self.data_value.axis == 0:
            self._needs_values("loops over the rows of a batch")
        return iter(self.tracer.apply("call_method", "unbind", (self, 0), {}))

    def item(self) -> float:
        self._needs_values("reads a tensor's value as a Python number")

    tolist = numpy = __float__ = __int__ = __index__ = item

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, Traced) and not isinstance(value, torch.Tensor):  # z[z < 0] = 0
            self.tracer.apply("call_method", "masked_fill_", (self, index, value), {})
            return
        self._needs_values("assigns into part of a tensor (build it with torch.cat or torch.stack instead)")

    def _needs_values(self, what: str) -> NoReturn:
        error = UntraceableModel(
            f"Expected a forward that does the same for every input, but the forward {what}{self.tracer.where()}. "
            "Rewrite that line with tensor operations, or pass the part of the network that follows a fixed path."
        )
        self.tracer.refuse(self.refusal or error)

    def _write_into(self, operation: Any, other: Any) -> Any:
        try:
            return self.tracer.write(self, operation, (self, other), {})
        except RegionscopeError as error:
            self.tracer.refuse(error)

    def __iadd__(self, other: Any) -> Any:
        return self._write_into(operator.add, other)

    def __isub__(self, other: Any) -> Any:
        return self._write_into(operator.sub, other)

    def __imul__(self, other: Any) -> Any:
        return self._write_into(operator.mul, other)

    def __itruediv__(self, other: Any) -> Any:
        return self._write_into(operator.truediv, other)


def traced(values: Iterable[Any]) -> Iterator[Traced]:
    """The stand-ins among the arguments of a call."""
    for value in values:
        if isinstance(value, Traced):
            yield value
        elif isinstance(value, list | tuple):
            yield from traced(value)
        elif isinstance(value, dict):
            yield from traced(value.values())
