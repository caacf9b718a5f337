"""Whatever happens to the files of a run, the next sweep says so, does what was lost again, and ends with the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regionscope_lab.store import RunFolder
from regionscope_lab.sweep import Sweep, read_runs, read_series, run_sweep, sweep_status

SWEEP = Sweep.from_dict(
    {
        "base": {
            "data": {"name": "random_labels", "n_train": 24, "n_test": 12},
            "network": {"name": "mlp", "options": {"width": 4}},
            "training": {"epochs": 2, "batch_size": 12, "checkpoints": "every 1 epochs"},
        }
    }
)
KEY = SWEEP.keys[0]
CHECKPOINT = "checkpoints/step-00000002.safetensors"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("finished")
    assert run_sweep(SWEEP, runs).complete
    return runs


def a_folder(path: Path) -> None:
    """A folder with something in it, where there was a file."""
    if path.is_file():
        path.unlink()
    path.mkdir()
    (path / "more").write_text("x")


def a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


def deep(path: Path) -> None:
    path.write_text("[" * 200_000)


def deep_line(path: Path) -> None:
    path.write_bytes(b"[" * 200_000 + b"\n" + path.read_bytes())


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 1
    path.write_bytes(raw)


def without_seconds(runs: Path) -> tuple[Any, ...]:
    folder = RunFolder.open(runs / KEY)
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in folder.rows()]
    result = folder.result()
    assert result is not None
    return rows, {name: value for name, value in result.items() if name not in ("seconds", "rows")}


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    **{f"folder {name}": (a_folder, f"{KEY}/{name}") for name in ("config.json", "result.json", "rows.jsonl")},
    **{f"folder {name}": (a_folder, f"{KEY}/{name}") for name in ("lock", CHECKPOINT)},
    **{f"deep {name}": (deep, f"{KEY}/{name}") for name in ("config.json", "result.json", "provenance.json")},
    "file for checkpoints": (a_file, f"{KEY}/checkpoints"),
    "file for the run": (a_file, KEY),
    "deep rows": (deep_line, f"{KEY}/rows.jsonl"),
    "flipped checkpoint": (flip, f"{KEY}/{CHECKPOINT}"),
    "deleted checkpoint": (Path.unlink, f"{KEY}/{CHECKPOINT}"),
    "deleted checkpoints": (shutil.rmtree, f"{KEY}/checkpoints"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_said_and_undone(name: str, finished: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(finished, runs)
    damage, place = DAMAGE[name]
    damage(runs / place)
    found = sweep_status(runs)  # looking ends in no traceback
    if name.startswith("deleted checkpoint"):
        assert found.counts == {"damaged": 1}
    read_series(runs)
    report = run_sweep(SWEEP, runs)
    if name == "folder lock":  # nobody needs the lock of a run that has ended
        assert (report.repaired, report.outcomes[0].skipped) == ((), True)
        return
    assert report.complete
    assert any(place.split("/")[-1].removesuffix("s") in sentence for sentence in report.repaired), report.repaired
    assert without_seconds(runs) == without_seconds(finished)
    again = run_sweep(SWEEP, runs)
    assert (again.repaired, again.outcomes[0].skipped) == ((), True)


@pytest.mark.parametrize("damage", [a_folder, deep])
@pytest.mark.parametrize("name", ["lock", "state.safetensors", "provenance.json", "data.json", "plan"])
def test_a_run_that_has_not_ended(damage: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    looks = iter([False, False])  # those before the training begins
    run_sweep(SWEEP, tmp_path, stop=lambda: next(looks, True))
    assert read_runs(tmp_path).column("status") == ["stopped"]
    place = next(tmp_path.glob("sweep-*.json")) if name == "plan" else tmp_path / KEY / name
    damage(place)
    report = run_sweep(SWEEP, tmp_path)
    assert [outcome.status for outcome in report.outcomes] == ["finished"]
    if name != "plan" and (name, damage) != ("lock", deep):  # a torn lock is nobody's, and a plan is only an order
        assert any(name in sentence for sentence in report.repaired)
