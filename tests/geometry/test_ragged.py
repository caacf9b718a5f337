"""Rows of different lengths."""

from __future__ import annotations

import numpy as np
import torch

from regionscope.geometry.ragged import gather_rows, sort_by


def test_rows_in_any_order_empty_and_repeated_ones_too() -> None:
    offsets = torch.tensor([0, 2, 2, 5, 6])
    index, found = gather_rows(offsets, torch.tensor([3, 1, 0, 2, 0]))
    assert index.tolist() == [5, 0, 1, 2, 3, 4, 0, 1]
    assert found.tolist() == [0, 1, 1, 3, 6, 8]
    index, found = gather_rows(offsets, torch.tensor([], dtype=torch.int64))
    assert index.tolist() == []
    assert found.tolist() == [0]


def test_equal_keys_keep_their_order() -> None:
    generator = torch.Generator().manual_seed(0)
    group, distinct = torch.randint(50, (4000,), generator=generator), torch.rand(4000, generator=generator).double()
    tied = (distinct * 8).floor()
    with_nan = torch.where(tied == 3, torch.nan, tied)
    for key in (distinct, tied, with_nan):
        order = sort_by(group.numpy(), key.numpy())
        assert order.tolist() == np.lexsort((key.numpy(), group.numpy())).tolist()
