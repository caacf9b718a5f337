"""Labels in full precision, most of them from a pass in half precision."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regionscope.errors import InputError

_ERROR_FACTOR = 4.0  # times the largest error that was seen
_ROWS_CHECKED = 16  # rows of every batch that are computed both ways

Outputs = Callable[[Tensor], Tensor]


class HalfPrecisionScreen:
    """Logits (n, c) or (n,) of inputs whose labels are meant to be those of ``exact``.

    Rounding of the quick pass rarely turns a label whose lead over the second is large. The first batch is computed
    both ways and shows how large the errors are; later, rows whose lead is within four times the largest error are
    computed again by ``exact``, and so are a few others, in case errors grow. On a line of 200 points that is about one
    point in a hundred. The largest error is an observed one: labels were those of ``exact`` in all cases tested, but
    this is not proven. Always called by ``exact`` are models that return integer labels, which have no lead, and those
    that fail in ``quick``.
    """

    def __init__(self, quick: Outputs, exact: Outputs) -> None:
        self._quick, self._exact = quick, exact
        self._usable = True
        self._error: float | None = None  # the largest difference of a logit that was seen

    def __call__(self, inputs: Tensor) -> Tensor:
        if self._error is None:
            tried = self._usable and len(inputs) >= _ROWS_CHECKED
            outputs = self._exact(inputs.clone() if tried else inputs)  # the model may write into them
            if tried:
                self._try(inputs, outputs)
            return outputs
        outputs = self._quick(inputs.clone()).clone()
        recomputed = torch.zeros(len(outputs), dtype=torch.bool, device=outputs.device)
        unsure = self._unsure(outputs)
        unsure[:: max(1, len(outputs) // _ROWS_CHECKED)] = True
        while bool(unsure.any()):
            rows = unsure.nonzero()[:, 0]
            precise = self._exact(inputs[_padded(rows)])[: len(rows)]
            self._update_error(outputs[rows], precise)
            outputs[rows] = precise
            recomputed |= unsure
            unsure = self._unsure(outputs) & ~recomputed  # the errors may have turned out larger
        return outputs

    def _try(self, inputs: Tensor, precise: Tensor) -> None:
        self._usable = isinstance(precise, Tensor) and precise.is_floating_point()
        if self._usable:
            try:
                self._update_error(self._quick(inputs), precise)
            except InputError:  # it cannot compute that way
                self._usable = False

    def _update_error(self, quick: Tensor, precise: Tensor) -> None:
        difference = (quick - precise).abs()
        seen = difference[difference.isfinite()]
        self._error = max(self._error or 0.0, float(seen.max()) if seen.numel() else 0.0)

    def _unsure(self, outputs: Tensor) -> Tensor:
        """Rows whose label errors of this size could turn; also those that hold NaN or infinite values."""
        rows = outputs.reshape(len(outputs), -1)
        if rows.shape[1] == 1:
            lead = rows[:, 0].abs()
        else:
            first, second = rows.topk(2, dim=1).values.unbind(1)
            lead = (first - second) / 2  # both may be off
        return ~((lead > _ERROR_FACTOR * (self._error or 0.0)) & rows.isfinite().all(1))


def _padded(rows: Tensor) -> Tensor:
    """The rows, the last one repeated up to a power of two: a GPU prepares its convolutions anew for each size."""
    size = 1 << (len(rows) - 1).bit_length()
    return torch.cat([rows, rows[-1:].expand(size - len(rows))])
