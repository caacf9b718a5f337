"""Rows of different lengths."""

from __future__ import annotations

import torch

from regionscope.geometry.ragged import gather_rows


def test_rows_in_any_order_empty_and_repeated_ones_too() -> None:
    offsets = torch.tensor([0, 2, 2, 5, 6])
    index, found = gather_rows(offsets, torch.tensor([3, 1, 0, 2, 0]))
    assert index.tolist() == [5, 0, 1, 2, 3, 4, 0, 1]
    assert found.tolist() == [0, 1, 1, 3, 6, 8]
    index, found = gather_rows(offsets, torch.tensor([], dtype=torch.int64))
    assert index.tolist() == []
    assert found.tolist() == [0]
