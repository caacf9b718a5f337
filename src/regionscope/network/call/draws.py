"""Random numbers that a model draws from torch's global generators, seen in this thread alone."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_UNTAGGED = ("aten::random", "aten::random_")  # torch does not tag them as random


class Draws(TorchDispatchMode):
    """Context that records which operations of this thread draw from torch's global generators.

    The generators belong to the whole process: a training loop in another thread changes them too, so their states
    alone do not show which thread has drawn.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device = device
        self._at_first = random_states(device)
        self._before: list[Tensor] | None = None
        self._after: list[Tensor] = []
        self._mixed = False

    def look(self, func: Any, args: Any) -> None:
        """Called with each operation before it runs."""

    @property
    def happened(self) -> bool:
        """Whether random numbers have been drawn."""
        return self._before is not None

    @contextmanager
    def compare(self) -> Iterator[None]:
        """Notice draws by the states of the generators alone, where no other thread can draw. Much faster.

        Nothing is noticed if a thread has started meanwhile: it may be the one that has drawn. As inside the context
        itself, compiled functions run without their compiler, which would take notes of what watches them.
        """
        before = random_states(self._device)
        try:
            with torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext():
                yield
        finally:
            after = random_states(self._device)
            if threading.active_count() == 1 and not _same(before, after):
                self._before, self._after = before, after

    def put_back(self) -> None:
        """Restore the generators, unless another thread may have drawn as well."""
        now = random_states(self._device)
        if threading.active_count() == 1:
            before = self._at_first
        elif self._before is not None and not self._mixed and _same(self._after, now):
            before = self._before
        else:
            return
        if not _same(before, now):
            torch.set_rng_state(before[0])
            if len(before) > 1:
                torch.cuda.set_rng_state(before[1], self._device)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would wrap the next method so that each operation takes several times as long

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        self.look(func, args)
        if not _is_draw(func, args, named):
            return func(*args, **named)
        now = random_states(self._device)
        if self._before is None:
            self._before = now
        else:
            self._mixed |= not _same(self._after, now)
        try:
            return func(*args, **named)
        finally:
            self._after = random_states(self._device)


def random_states(device: torch.device) -> list[Tensor]:
    """The states of the generators of the CPU and of this device."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def _same(these: list[Tensor], those: list[Tensor]) -> bool:
    with torch._C.DisableTorchFunction():  # what watches the model must not see this
        return all(map(torch.equal, these, those))


@cache
def _is_random(func: Any) -> bool:
    schema = getattr(func, "_schema", None)
    return schema is not None and (torch.Tag.nondeterministic_seeded in func.tags or schema.name in _UNTAGGED)


def _is_draw(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether the operation reads a global generator: it is random, has no generator of its own and is not at rest."""
    if not _is_random(func):
        return False
    schema = func._schema
    # An argument that has its default is not passed on: attention without dropout comes without dropout_p.
    given = {argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()}
    given |= {**dict(zip((argument.name for argument in schema.arguments), args, strict=False)), **kwargs}
    trained = given.get("train", True) and given.get("training", True)
    share = given.get("dropout", 1) and given.get("dropout_p", 1)
    return given.get("generator") is None and bool(trained and share)
