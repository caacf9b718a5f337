"""The workspace of the studies: a folder of runs that they share, and one of everything else that is computed."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.errors import Damaged, InputError, RegionscopeError
from regionscope.monitor import parse_schedule
from regionscope.provenance import provenance
from regionscope.version import __version__
from regionscope_lab.config import Experiment
from regionscope_lab.data import DataSplit
from regionscope_lab.store import ENDED, RunFolder
from regionscope_lab.store.files import read_document, set_aside, write_document

Settings = Mapping[str, Any]
Computation = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Place:
    """Where a computation finds stored runs and their data, and the device that it may use; no part of its answer."""

    runs: Path
    data_root: Path | None = None
    device: str = "cpu"

    def run(self, key: str) -> RunFolder:
        return RunFolder.open(self.runs / key)


class Workspace:
    """A folder with ``runs/`` (trainings, by the key of their experiment) and ``computed/`` (results as JSON, by the
    key of the function and its settings). What exists is never computed again.

    device: of computations on stored runs. on_share: called with the finished share of what ``compute`` has to do.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        data_root: Path | None = None,
        workers: int = 1,
        device: str = "cpu",
        on_share: Callable[[float], object] = lambda share: None,
    ) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"Expected a folder for the studies, got the file {str(folder)!r}. Choose another folder.")
        self.data_root = data_root
        self.device = device
        self.workers = workers
        self.on_share = on_share
        self.used: dict[str, dict[str, Any]] = {}  # what ``compute`` gave out: settings, answer, seconds, provenance

    @property
    def runs_folder(self) -> Path:
        return self.folder / "runs"

    @property
    def place(self) -> Place:
        return Place(self.runs_folder, self.data_root, self.device)

    def missing(self, experiments: Iterable[Experiment]) -> list[Experiment]:
        """Those that have not ended yet, each once, seed after seed, so that a stop leaves whole seeds."""
        wanted = {experiment.key: experiment for experiment in experiments}
        lacking = (experiment for key, experiment in wanted.items() if not self._ended(self.runs_folder / key))
        return sorted(lacking, key=lambda experiment: experiment.seed)

    def runs(self, experiments: Sequence[Experiment]) -> list[RunFolder]:
        """The runs of these experiments, in their order; all must have ended."""
        lacking = self.missing(experiments)
        if lacking:
            raise InputError(
                f"Expected {len(experiments)} runs in {self.runs_folder}, got {len(experiments) - len(lacking)}; there "
                f"is no {lacking[0].label}, for example. Train them with regionscope-lab paper run and the name of the "
                "item."
            )
        return [RunFolder.open(self.runs_folder / experiment.key) for experiment in experiments]

    def compute(self, function: Computation, settings: Sequence[Settings]) -> list[dict[str, Any]]:
        """``function(**setting)`` for every setting, in order; each answer is stored as soon as it is there.

        ``function`` is at the top of its module (worker processes import it) and returns plain values.
        """
        return self._compute(function, function, settings)

    def _compute(
        self,
        named: Computation,
        function: Computation,
        settings: Sequence[Settings],
        device: torch.device | None = None,
    ) -> list[dict[str, Any]]:
        paths = [self._path(named, setting) for setting in settings]
        lacking = {path: dict(setting) for path, setting in zip(paths, settings, strict=True) if _load(path) is None}
        if self.workers > 1 and len(lacking) > 1:
            self._in_processes(function, lacking, device)
        else:
            for done, (path, setting) in enumerate(lacking.items(), 1):
                _store(path, setting, device, *_timed(function, setting))
                self.on_share(done / len(lacking))
        documents = [document for path in paths if (document := _load(path)) is not None]
        if len(documents) < len(paths):
            raise RegionscopeError(
                f"Expected the stored answers of {named.__name__} in {self.folder}, got fewer. Run the study again."
            )
        self.used.update(dict(zip(map(str, paths), documents, strict=True)))
        return [document["answer"] for document in documents]

    def compute_with_place(self, function: Computation, settings: Sequence[Settings]) -> list[dict[str, Any]]:
        """``function(place, **setting)``, else as ``compute``: for what reads stored runs or uses the device.

        The place is no part of the key of an answer: settings name runs by their keys, so that answers stay true where
        the folder is moved or the device is another.
        """
        return self._compute(function, partial(function, self.place), settings, torch.device(self.device))

    def compute_at_steps(self, function: Computation, runs: Sequence[Experiment], settings: Settings) -> None:
        """``function(place, run=..., step=..., **settings)`` at every step of these runs with stored weights."""
        steps = [(run.path.name, step) for run in self.runs(runs) for step in stored_steps(run)]
        self.compute_with_place(function, [{"run": run, "step": step, **settings} for run, step in steps])

    def _in_processes(
        self, function: Computation, lacking: Mapping[Path, dict[str, Any]], device: torch.device | None
    ) -> None:
        context = get_context("spawn")
        failure: BaseException | None = None
        with ProcessPoolExecutor(self.workers, mp_context=context, initializer=_one_thread) as pool:
            jobs = {pool.submit(_timed, function, setting): (path, setting) for path, setting in lacking.items()}
            for done, job in enumerate(as_completed(jobs), 1):
                self.on_share(done / len(jobs))
                if (error := job.exception()) is None:
                    _store(*jobs[job], device, *job.result())
                failure = failure or error
        if failure is not None:  # raised last, so that what the others found is kept
            raise failure

    def _path(self, function: Computation, setting: Settings) -> Path:
        name = f"{function.__module__.removeprefix('regionscope_lab.papers.')}.{function.__name__}"
        text = json.dumps([name, __version__, dict(setting)], sort_keys=True)
        return self.folder / "computed" / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"

    @staticmethod
    def _ended(path: Path) -> bool:
        try:
            return (path / "config.json").exists() and RunFolder.open(path).status in ENDED
        except Damaged:  # the next start of the run mends it
            return False


def _timed(function: Computation, setting: dict[str, Any]) -> tuple[dict[str, Any], float]:
    start = time.perf_counter()
    return function(**setting), time.perf_counter() - start


def _store(
    path: Path, setting: dict[str, Any], device: torch.device | None, answer: dict[str, Any], seconds: float
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = {"seconds": round(seconds, 3), "provenance": provenance(device)}
    write_document(path, {"settings": setting, "answer": answer, **made})


def _load(path: Path) -> dict[str, Any] | None:
    try:
        return read_document(path)
    except Damaged:
        set_aside(path)
        return None


def _one_thread() -> None:
    torch.set_num_threads(1)


def stored_steps(run: RunFolder) -> tuple[int, ...]:
    """The steps with stored weights, at least one; of an ended run of an archive, which has none, those that had."""
    result = run.result()
    if not run.checkpoints() and result is not None and result["status"] == "finished":
        schedule = parse_schedule(run.experiment.training.checkpoints)
        return schedule.steps(result["steps"], per_epoch=result["steps"] // result["epochs"])
    run.checkpoint()  # raises where there is none
    return tuple(stored.step for stored in run.checkpoints())


def model_at(run: RunFolder, step: int) -> nn.Module:
    """The network at a stored step."""
    return run.model_at(run.checkpoint(step))


def last_model(run: RunFolder) -> nn.Module:
    """The network at the last stored step."""
    return run.model_at(run.checkpoint())


def training_points(run: RunFolder, root: Path | None) -> tuple[Tensor, Tensor]:
    """Inputs and labels that the run was trained on; not to be written to, since the next call gives the same ones."""
    data = _split(run.path, root).train
    return data.inputs, data.labels


@lru_cache(maxsize=1)  # many computations in a row look at one run
def _split(run: Path, root: Path | None) -> DataSplit:
    return RunFolder.open(run).split(root)
