"""Weights of stored runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from regionscope.errors import InputError
from regionscope_lab.config import DataSpec, Experiment, NetworkSpec, Training
from regionscope_lab.experiment import run
from regionscope_lab.papers.archive import pack, unpack
from regionscope_lab.papers.stored import last_model, nearest, stored_steps
from regionscope_lab.store import RunFolder

DATA, NETWORK = DataSpec(name="two_moons", n_train=20, n_test=10), NetworkSpec(name="mlp", options={"width": 4})


@pytest.mark.parametrize("read", [stored_steps, last_model])
def test_runs_without_weights_say_how_to_get_them(read: Callable[[RunFolder], object], tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, Experiment(data=DATA, network=NETWORK))
    with pytest.raises(InputError, match=r"Expected stored weights .* got none .* train it again with `regionscope"):
        read(run)


@pytest.mark.parametrize("checkpoints", ["start and log 1 100 4", "every 2 epochs", "end"])
def test_a_run_of_an_archive_knows_the_steps_of_its_weights(checkpoints: str, tmp_path: Path) -> None:
    training = Training(epochs=3, batch_size=8, checkpoints=checkpoints)  # the last batch of an epoch is shorter
    trained = run(Experiment(data=DATA, network=NETWORK, training=training), tmp_path / "here" / "runs")
    pack(tmp_path / "here", tmp_path / "runs.zip")
    unpack(tmp_path / "runs.zip", tmp_path / "there")
    archived = RunFolder.open(tmp_path / "there" / "runs" / trained.key)
    assert archived.checkpoints() == []
    assert stored_steps(archived) == stored_steps(trained)
    assert nearest(archived, 1) == nearest(trained, 1)
