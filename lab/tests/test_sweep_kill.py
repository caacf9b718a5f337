"""Sweeps under kill -9: nothing that was finished is done again, everything ends, and the numbers are the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import forked
from dask_cluster import two_workers
from regionscope.errors import InputError
from regionscope_lab import experiment
from regionscope_lab.store import RunFolder
from regionscope_lab.sweep import Sweep, read_runs, run_sweep

BASE = {
    "data": {"name": "random_labels", "n_train": 64, "n_test": 16},
    "network": {"name": "mlp", "options": {"width": 8}},
    "training": {"epochs": 30, "batch_size": 8, "checkpoints": "every 10 epochs"},
}
MEASURE = {"instrument": "parameter_norms", "name": "norm", "when": "every 3 epochs"}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def small(seeds: int, epochs: int = 40) -> Sweep:
    grid = {"training.epochs": [epochs], "seed": list(range(seeds))}
    return Sweep.from_dict({"base": BASE, "measure": [MEASURE], "grid": grid})


def numbers(runs: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows of all runs without their times, and the results."""
    found = {}
    for key in read_runs(runs).column("key"):
        folder = RunFolder.open(runs / key)
        rows = [{name: value for name, value in row.items() if name != "seconds"} for row in folder.rows()]
        result = folder.result()
        assert result is not None
        found[key] = [*rows, {name: value for name, value in result.items() if name not in ("seconds", "rows")}]
    return found


def ended(runs: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in runs.glob("*/result.json")}


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The numbers of six runs of 40 epochs that nothing disturbs."""
    runs = tmp_path_factory.mktemp("expected")
    assert run_sweep(small(6), runs).complete
    return numbers(runs)


@pytest.mark.kill
def test_killed_at_random_moments_the_numbers_are_the_same(
    expected: dict[str, list[dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(experiment.run.__kwdefaults__, "save_every", 0.02)
    seed = random.randrange(10**6)
    chance, runs, sweep = random.Random(seed), tmp_path / "runs", small(2)
    before: dict[Path, int] = {}
    kills, longest = 0, 0.3
    while len(ended(runs)) < 2:
        child = forked.start(lambda: run_sweep(sweep, runs))
        time.sleep(chance.uniform(0.02, longest))
        longest *= 1.1  # so that it ends on any machine
        code = forked.kill(child)
        assert code in (0, -signal.SIGKILL), seed
        kills += code == -signal.SIGKILL
        now = ended(runs)
        assert all(now[path] == when for path, when in before.items()), f"finished work was done again: {seed}"
        before = now
    assert kills > 0
    assert numbers(runs) == {key: expected[key] for key in sweep.keys}, seed


@contextmanager
def program(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A program in a session of its own, so that it and its children can be killed together."""
    started = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, start_new_session=True
    )
    try:
        yield started
    finally:
        with_children(started, signal.SIGKILL)
        started.communicate()


def with_children(started: subprocess.Popen[str], number: int) -> None:
    try:
        os.killpg(started.pid, number)
    except ProcessLookupError:
        return


@pytest.mark.kill
def test_a_pool_whose_worker_and_then_parent_are_killed(
    expected: dict[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    """A killed worker's run is done by a new one; a killed parent's workers save and stop; a restart does the rest."""
    runs, grid = tmp_path / "runs", tmp_path / "grid.toml"
    grid.write_text(
        '[base.data]\nname = "random_labels"\nn_train = 64\nn_test = 16\n'
        '[base.network]\nname = "mlp"\noptions = { width = 8 }\n'
        '[base.training]\nepochs = 40\nbatch_size = 8\ncheckpoints = "every 10 epochs"\n'
        '[[measure]]\ninstrument = "parameter_norms"\nname = "norm"\nwhen = "every 3 epochs"\n'
        "[grid]\nseed = [0, 1, 2, 3, 4, 5]\n"
    )
    sweep = Sweep.from_toml(grid)
    command = [
        sys.executable,
        "-m",
        "regionscope_lab",
        "sweep",
        "run",
        str(grid),
        "--runs",
        str(runs),
        "--workers",
        "2",
    ]
    with program(*command) as first:
        wait_for(lambda: len(ended(runs)) >= 1)
        victim = next(pid for pid in map(owner, runs.glob("*/lock")) if pid is not None)
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: len(ended(runs)) >= 2)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        wait_for(lambda: not list(runs.glob("*/lock")) or all(owner(path) == victim for path in runs.glob("*/lock")))
    before = ended(runs)
    assert 2 <= len(before) < 6
    report = run_sweep(sweep, runs)
    assert report.complete
    assert sum(outcome.skipped for outcome in report.outcomes) == len(before)
    assert {path: when for path, when in ended(runs).items() if path in before} == before
    assert numbers(runs) == expected


def owner(path: Path) -> int | None:
    """The process that holds a lock."""
    import json

    try:
        return int(json.loads(path.read_text())["pid"])
    except (OSError, ValueError):
        return None


@pytest.mark.kill
def test_dask_workers_may_die(
    expected: dict[str, list[dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler and two workers on loopback; one is killed while it works, and every run ends once."""
    pytest.importorskip("distributed")
    monkeypatch.setattr("regionscope_lab.sweep.cluster._POLL_SECONDS", 0.02)  # so that a run is seen before it ends
    runs, sweep = tmp_path / "runs", small(4)
    killed: list[int] = []

    def kill_once() -> bool:
        """Asked now and then while the sweep runs: kill the first worker seen in the middle of a run."""
        for path in runs.glob("*/lock"):
            pid = owner(path)
            if not killed and pid is not None and (path.parent / "rows.jsonl").exists():
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)
        return False

    with two_workers(tmp_path, "regionscope_lab.sweep.work", "torch._dynamo") as address:  # optimizers load the latter
        report = run_sweep(sweep, runs, dask=address, gpu_resource=1, stop=kill_once)
        with pytest.raises(InputError, match="Expected a Dask worker with GPU"):
            run_sweep(small(5), runs, dask=address, gpu_resource=2)
    assert killed
    assert [outcome.status for outcome in report.outcomes] == ["finished"] * 4
    taken = [sentence for sentence in report.repaired if f"process {killed[0]}" in sentence]
    assert len(taken) == 1
    assert read_runs(runs).column("status") == ["finished"] * 4
    assert numbers(runs) == {key: expected[key] for key in sweep.keys}


def test_no_scheduler_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("regionscope.cluster._ANSWER", 1)
    with pytest.raises(InputError, match=r"No Dask scheduler found at tcp://127\.0\.0\.1:9"):
        run_sweep(small(1), tmp_path, dask="tcp://127.0.0.1:9")
    assert not list(tmp_path.glob("*/result.json"))
