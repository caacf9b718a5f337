"""Measuring in several threads beside a training loop: every number right, and the training as if alone."""

from __future__ import annotations

import pytest

from fuzz.threads import run


@pytest.mark.slow
def test_eight_threads_beside_a_training_loop() -> None:
    found = run(30)
    assert found.faults == ()
    assert found.calls == 240
    assert found.steps > 50
