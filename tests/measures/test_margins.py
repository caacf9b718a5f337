"""Output margins by hand, and the distance to the decision boundary on slices."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from measures.labelled_points import X, Y
from regionscope import measures
from small_slices import mlp


def test_output_margin_by_hand() -> None:
    logits = torch.tensor([[2.0, 5.0, 1.0], [0.0, 1.0, 4.0]])
    found = measures.output_margin(nn.Identity(), logits, torch.tensor([1, 0]))
    assert (found.value, found.n) == ((3.0 - 4.0) / 2, 2)
    single = measures.output_margin(nn.Identity(), torch.tensor([[2.0], [3.0]]), torch.tensor([1, 0]))
    assert single.value == -0.5
    net = mlp(3, 8, 3)
    assert measures.output_margin(net, X, Y, batch_size=7).value == pytest.approx(
        measures.output_margin(net, X, Y).value
    )
