"""Constants of a forward into which it has written values that depend on the input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

from torch import Tensor
from torch.overrides import TorchFunctionMode

from regionscope.network.proxy import Traced


class Overwritten(TorchFunctionMode):
    """While it is open, no call may read memory that was ``noted``: it still holds what was there before the write.

    ``h = torch.zeros(n); h += f(x)`` is well: ``h`` is the result from then on. ``g = h`` before it, or
    ``h.add_(f(x))`` without taking its result, keeps a tensor that only a run of the network could fill.
    on_read: raises the refusal.
    """

    def __init__(self, on_read: Callable[[], NoReturn]) -> None:
        super().__init__()
        self._on_read = on_read
        self._noted: dict[int, Tensor] = {}  # keeps them alive, so that their memory stays theirs

    def note(self, tensor: Tensor) -> None:
        """A value that depends on the input has been written into ``tensor``."""
        self._noted[tensor.untyped_storage().data_ptr()] = tensor

    def __torch_function__(
        self, func: Any, types: Any, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if self._noted and any(self._is_noted(tensor) for tensor in _tensors((*args, *named.values()))):
            self._on_read()
        return func(*args, **named)

    def _is_noted(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._noted


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _tensors(value)
        elif isinstance(value, Tensor) and not isinstance(value, Traced):
            yield value
