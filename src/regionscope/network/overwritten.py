"""Tensors that a forward must not read: constants it has written the input into, and those of the original module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

from torch import Tensor
from torch.overrides import TorchFunctionMode

from regionscope.network.proxy import Traced


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
