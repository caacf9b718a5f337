"""Measuring in several threads beside a training loop: every number right, and the training as if alone."""

from __future__ import annotations

import pytest
import torch

import regionscope as rs
from fuzz.threads import run


@pytest.mark.slow
def test_eight_threads_beside_a_training_loop() -> None:
    found = run(30)
    assert found.faults == ()
    assert found.calls == 240
    assert found.steps > 50


def test_the_number_of_threads_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that starts while torch has another number keeps that number for good."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    with monkeypatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: 2)
        patch.delattr(torch, "set_num_threads")
        rs.linear_regions(model, rs.Segment([-1, -1], [1, 1]))
        rs.decision_regions(model, rs.Box.between(-1, 1, (2,)))
