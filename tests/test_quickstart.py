from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from regionscope.quickstart import Quickstart, QuickstartConfig, frames, quickstart, save

SMALL = QuickstartConfig(n_points=120, epochs=3, hidden=(8, 8))


@pytest.fixture(scope="module")
def result() -> Quickstart:
    return quickstart(SMALL)


def test_numbers_agree_with_the_results(result: Quickstart) -> None:
    numbers = result.numbers()
    for moment, snapshot in (("before", result.before), ("after", result.after)):
        row = numbers[moment]
        assert row["activation_regions"] == snapshot.partition.n_activation_regions >= row["linear_regions"]
        layers = row["activation_regions_after_layer"]
        assert list(layers) == ["relu1", "relu2"]
        assert list(layers.values())[-1] == row["activation_regions"]
        assert row["decision_regions"] == snapshot.decision.count
        snapshot.partition.check()


def test_the_slice_is_the_square_of_the_data(result: Quickstart) -> None:
    where = result.after.partition.slice
    assert where.embed(where.corners).tolist() == [[-1, -1], [1, -1], [1, 1], [-1, 1]]
    assert where.size == 4.0


def test_the_same_seed_gives_the_same_numbers(result: Quickstart) -> None:
    again, other = quickstart(SMALL), quickstart(replace(SMALL, seed=1))
    assert again.after.numbers() == result.after.numbers()
    assert other.before.numbers() != result.before.numbers()


def test_the_frames_go_from_the_first_step_to_the_last(result: Quickstart) -> None:
    training = frames(result)
    assert [frame.step for frame in training.frames][:: len(training.frames) - 1] == [0, 12]
    assert training.frames[0].linear.n_linear_regions == result.before.partition.n_linear_regions
    assert training.frames[-1].linear.n_linear_regions == result.after.partition.n_linear_regions
    assert {curve.name for curve in training.curves} >= {"train loss", "linear regions"}


def test_the_files_hold_everything(result: Quickstart, tmp_path: Path) -> None:
    numbers, weights = save(result, tmp_path / "deep" / "folder")
    written = json.loads(numbers.read_text())
    assert written["after"] == result.after.numbers()
    assert written["config"]["seed"] == SMALL.seed
    assert written["provenance"]["torch"] == torch.__version__
    state = safetensors.torch.load_file(weights)
    assert all(torch.equal(state[name], tensor) for name, tensor in result.model.state_dict().items())
    save(result, tmp_path / "deep" / "folder")
