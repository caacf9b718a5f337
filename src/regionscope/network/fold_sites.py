"""Where a nonlinearity folds the map, as plain arrays: two nouns, ``Thresholds`` and ``Maxima``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The map folds where ``values[:, i] == at[t]``; the unit ``(t, i)`` has index ``t * n + i``.

    values: (v, n), one row per input, a view of the pre-activations wherever that is possible.
    at: the thresholds in ascending order; (0.0,) for ReLU, (0.0, 6.0) for ReLU6.
    """

    values: Tensor
    at: tuple[float, ...]

    def __repr__(self) -> str:
        return f"Thresholds(rows={len(self.values)}, n_units={self.n_units}, at={self.at})"

    @property
    def n_units(self) -> int:
        """Number of fold sites: thresholds times values."""
        return len(self.at) * self.values.shape[1]

    def pieces(self) -> Tensor:
        """(v, n_units) int8: 1 where the value lies above the threshold, 0 at or below it."""
        return torch.cat([self.values > t for t in self.at], dim=1).to(torch.int8)


@dataclass(frozen=True, eq=False)
class Maxima:
    """The map returns ``out[:, i] = max(values[:, groups[i]])`` and folds where the largest entry changes.

    values: (v, n), one row per input. groups: (w, m) indices into the columns of ``values``; a window that crosses the
    border, or is smaller than the others, repeats one of its own indices.
    """

    values: Tensor
    groups: Tensor

    def __repr__(self) -> str:
        return f"Maxima(rows={len(self.values)}, n_units={self.n_units})"

    @property
    def n_units(self) -> int:
        """Number of windows."""
        return self.groups.shape[0]

    def pieces(self) -> Tensor:
        """(v, n_units) int16: position of the largest entry within its group, the first one on ties."""
        return self.values[:, self.groups].argmax(dim=2).to(torch.int16)


FoldSites = Thresholds | Maxima
