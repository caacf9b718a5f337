"""``run_sweep``: all experiments of a sweep, in this process, in worker processes or on a Dask cluster."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from regionscope.checks import check_positive, read_integer, read_path
from regionscope.errors import Damaged, InputError
from regionscope.formatting import counted
from regionscope_lab.config import Experiment
from regionscope_lab.experiment import check
from regionscope_lab.store import ENDED, RunFolder, files, is_held
from regionscope_lab.sweep.cluster import run_on_dask
from regionscope_lab.sweep.grid import Sweep
from regionscope_lab.sweep.pool import run_in_pool
from regionscope_lab.sweep.work import Job, JobResult, outcome_of, work

_WAIT_SECONDS = 1.0  # between two looks at runs that other processes work on
_RETRY_SECONDS = (
    60.0  # after which a worker tries a locked run: the process that the lock names may not hold it any more
)


@dataclass(frozen=True)
class SweepReport:
    """Outcomes of all experiments, in the order of the sweep. ``reason`` explains why the sweep is not complete."""

    runs_dir: Path
    outcomes: tuple[JobResult, ...]
    seconds: float
    reason: str = ""

    def __repr__(self) -> str:
        counts = "".join(
            f", {status}={n}" for status, n in Counter(outcome.status for outcome in self.outcomes).items()
        )
        return f"SweepReport({counted(len(self.outcomes), 'run')}{counts}, complete={self.complete})"

    def count(self, *statuses: str) -> int:
        return sum(outcome.status in statuses for outcome in self.outcomes)

    @property
    def complete(self) -> bool:
        """Whether every run has ended, including failed runs."""
        return self.count(*ENDED, "failed") == len(self.outcomes)

    @property
    def repaired(self) -> tuple[str, ...]:
        """Messages about damaged files that were renamed."""
        return tuple(sentence for outcome in self.outcomes for sentence in outcome.repaired)


@dataclass
class _SweepState:
    """The outcomes so far, by key, and whether to go on. disk_full: the message of a run that found no space."""

    labels: Mapping[str, str]
    on_outcome: Callable[[JobResult], object]
    stop: Callable[[], bool]
    deadline: float | None
    outcomes: dict[str, JobResult] = field(default_factory=dict)
    repaired: dict[str, list[str]] = field(default_factory=dict)
    disk_full: str = ""

    def report(self, outcome: JobResult) -> None:
        """Keep an outcome, and pass it on unless another process works on the run."""
        outcome = replace(outcome, label=self.labels[outcome.key])
        self.outcomes[outcome.key] = outcome
        self.repaired.setdefault(outcome.key, []).extend(outcome.repaired)
        if outcome.status == "full":
            self.disk_full = outcome.message
        if outcome.status != "busy":
            self.on_outcome(outcome)

    def is_late(self) -> bool:
        """Whether the time limit is reached."""
        return self.deadline is not None and time.time() >= self.deadline

    def is_over(self) -> bool:
        """Whether to start no further run, and to stop running ones."""
        return self.stop() or bool(self.disk_full) or self.is_late()


def run_sweep(
    sweep: Sweep | Sequence[Experiment],
    runs_dir: Path | str,
    *,
    workers: int = 1,
    device: str | None = None,
    data_root: Path | None = None,
    dask: str | None = None,
    gpu_resource: float | None = None,
    threads: int | None = 1,
    limit_seconds: float | None = None,
    compiled: bool = False,
    stop: Callable[[], bool] = lambda: False,
    on_outcome: Callable[[JobResult], object] = lambda outcome: None,
    on_share: Callable[[str, float], object] = lambda key, share: None,
) -> SweepReport:
    """Run the experiments that have not ended yet, and return the outcome of each.

    Several processes on several machines can work on the same folder at once; each run is computed by one of them.

    workers: number of processes on this machine; 1 uses the current process. dask: "tcp://host:port" or "local:4"
        instead.
    device: "cpu" by default; with "cuda" several workers share one GPU.
    gpu_resource: amount of the Dask resource GPU that a run takes (1 for "cuda", else 0).
    threads: number of torch threads of a run, so that results do not depend on how the sweep runs; None keeps torch's
        setting.
    limit_seconds: time after which no run starts, and running ones save their state and stop. stop: function that is
        called regularly; if it returns True, the sweep stops in the same way.
    compiled: whether to train with compiled steps on CUDA.
    on_outcome: called with each outcome. on_share: called with (key, finished share) of running experiments.
    """
    read_integer("workers", workers)
    if limit_seconds is not None:
        check_positive(limit_seconds=limit_seconds)
    if not isinstance(sweep, Sweep | Sequence):
        raise InputError(f"Expected a Sweep, got {type(sweep).__name__}. Read one with Sweep.from_toml(path).")
    sweep = sweep if isinstance(sweep, Sweep) else Sweep(tuple(sweep))
    for experiment in sweep:
        check(experiment)
    runs_dir = read_path(runs_dir)
    start = time.time()
    deadline = None if limit_seconds is None else start + limit_seconds
    _write_plan(sweep, runs_dir)
    state = _SweepState(dict(zip(sweep.keys, sweep.labels, strict=True)), on_outcome, stop, deadline)
    known = data_root or os.environ.get("REGIONSCOPE_DATA")  # of this machine, for workers on others
    jobs, root = [], Path(known).absolute() if known else None
    for key, experiment in zip(sweep.keys, sweep, strict=True):
        ended = _ended(runs_dir / key, experiment)
        if ended is None:
            jobs.append(Job(key, experiment, runs_dir.absolute(), device, root, threads, deadline, compiled))
        else:
            state.report(ended)
    gpus = gpu_resource if gpu_resource is not None else float(str(device).startswith("cuda"))
    do: Callable[[Sequence[Job]], None]
    if dask is not None:
        do = partial(run_on_dask, address=dask, gpus=gpus, report=state.report, stop=state.is_over)
    elif workers > 1:
        do = partial(run_in_pool, workers=workers, report=state.report, on_share=on_share, stop=state.is_over)
    else:
        do = partial(_run_here, report=state.report, on_share=on_share, stop=state.is_over)
    _do_all(jobs, do, state, here=dask is None and workers == 1)
    return _report(sweep, runs_dir, state, time.time() - start)


def _do_all(jobs: Sequence[Job], do: Callable[[Sequence[Job]], None], state: _SweepState, *, here: bool) -> None:
    """Do the jobs, and wait for those that other processes work on; workers are started only for the free ones."""
    tried = time.monotonic()
    while jobs:
        trust_locks = not here and time.monotonic() - tried < _RETRY_SECONDS
        free = _free(jobs, state.report) if trust_locks else jobs
        if free:
            do(free)
            tried = time.monotonic()
        jobs = [job for job in jobs if state.outcomes[job.key].status == "busy"]
        if state.is_over():
            break
        if jobs:
            time.sleep(_WAIT_SECONDS)


def _report(sweep: Sweep, runs_dir: Path, state: _SweepState, seconds: float) -> SweepReport:
    outcomes = [replace(state.outcomes[key], repaired=tuple(dict.fromkeys(state.repaired[key]))) for key in sweep.keys]
    reason = state.disk_full
    if not reason and any(outcome.status in ("stopped", "busy") for outcome in outcomes):
        reason = "The time limit was reached." if state.is_late() else "The sweep was stopped."
    return SweepReport(runs_dir, tuple(outcomes), seconds, reason)


def _free(jobs: Sequence[Job], report: Callable[[JobResult], object]) -> list[Job]:
    """The jobs that no process works on. The others are reported, as busy or with the outcome of their run."""
    free = []
    for job in jobs:
        path = job.runs_dir / job.key
        if is_held(path):
            report(job.result("busy", f"{path} is being worked on by another process."))
        elif (ended := _ended(path, job.experiment)) is not None:
            report(replace(ended, skipped=False))
        else:
            free.append(job)
    return free


def _run_here(
    jobs: Sequence[Job],
    *,
    report: Callable[[JobResult], object],
    on_share: Callable[[str, float], object],
    stop: Callable[[], bool],
) -> None:
    for job in jobs:
        if stop():
            report(job.result("stopped", "It was not begun."))
        else:
            report(work(job, stop=stop, on_share=partial(on_share, job.key)))


def _ended(path: Path, experiment: Experiment) -> JobResult | None:
    """The outcome of a run that has ended and is whole."""
    if not (path / "result.json").exists():
        return None
    folder = RunFolder(path, experiment)
    return outcome_of(folder, skipped=True) if folder.is_done else None


def _write_plan(sweep: Sweep, runs_dir: Path) -> None:
    """Store the list of the runs beside them, from which status and table read missing runs and the order."""
    files.make_folder(runs_dir, runs_dir)
    mark = hashlib.sha256(" ".join([sweep.name, *sweep.keys]).encode()).hexdigest()[:12]
    path = runs_dir / f"sweep-{mark}.json"
    try:
        if files.read_document(path) is not None:
            return
    except Damaged:
        files.set_aside(path)
    plan = {"name": sweep.name, "keys": list(sweep.keys), "labels": list(sweep.labels)}
    try:
        files.write_document(path, plan)
    except OSError as error:
        raise InputError(
            f"Expected a folder that can be written to, got {str(runs_dir)!r}: {error}. Choose another folder."
        ) from error
