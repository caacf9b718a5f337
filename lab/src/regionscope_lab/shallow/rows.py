"""Values of many flows that are worked through together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self

import torch
from torch import Tensor


class FlowRows:
    """A frozen dataclass whose tensors have one row for each of B flows; a field may be such a value, too."""

    def take(self, rows: Tensor) -> Self:
        """The flows ``rows``."""
        return type(self)(*(v.take(rows) if isinstance(v, FlowRows) else v[rows] for v in self._values))

    def put_(self, rows: Tensor, other: Self) -> None:
        """Write ``other`` over the flows ``rows``, in place."""
        for mine, theirs in zip(self._values, other._values, strict=True):
            mine.put_(rows, theirs) if isinstance(mine, FlowRows) else mine.index_copy_(0, rows, theirs)

    def to(self, device: torch.device | str) -> Self:
        """The same values on ``device``."""
        return type(self)(*(value.to(device) for value in self._values))

    def where(self, rows: Tensor, other: Self) -> Self:
        """``self`` for the flows with ``rows`` (B,) true, else ``other``."""
        pairs = zip(self._values, other._values, strict=True)
        return type(self)(
            *(
                a.where(rows, b) if isinstance(a, FlowRows) else torch.where(rows.view(-1, *[1] * (a.ndim - 1)), a, b)
                for a, b in pairs
            )
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All flows of ``parts``, one after another."""
        columns = zip(*(part._values for part in parts), strict=True)
        return cls(*(type(c[0]).joined(c) if isinstance(c[0], FlowRows) else torch.cat(c) for c in columns))

    @property
    def _values(self) -> list[Any]:
        return [getattr(self, f.name) for f in fields(self)]  # type: ignore[arg-type]
