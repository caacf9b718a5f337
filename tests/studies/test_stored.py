"""Weights of stored runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from regionscope.errors import InputError
from regionscope.lab.config import DataSpec, Experiment, NetworkSpec
from regionscope.lab.store import RunFolder
from regionscope.studies.stored import last_model, stored_steps


@pytest.mark.parametrize("read", [stored_steps, last_model])
def test_runs_without_weights_say_how_to_get_them(read: Callable[[RunFolder], object], tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, Experiment(data=DataSpec(name="two_moons"), network=NetworkSpec(name="mlp")))
    with pytest.raises(InputError, match=r"Expected stored weights .* got none .* train it again with `regionscope"):
        read(run)
