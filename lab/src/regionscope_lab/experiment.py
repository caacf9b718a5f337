"""``run``: one experiment from its settings to its result, continued where an earlier start stopped."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import check_instance, read_device
from regionscope.errors import Busy, DiskFull, InputError, LockLost, RegionscopeError, Stopped
from regionscope.formatting import described, first_line
from regionscope.monitor import Monitor, Row, parse_schedule
from regionscope.provenance import run_provenance
from regionscope_lab import instruments, zoo
from regionscope_lab.config import DataSpec, Experiment
from regionscope_lab.data import DataSplit, load
from regionscope_lab.data import check_options as check_data_options
from regionscope_lab.instruments.measurement_context import measure_seed
from regionscope_lab.store import RunFolder
from regionscope_lab.store.files import write_bytes
from regionscope_lab.train import EpochRow, Trained, TrainingProgress, TrainState, train
from regionscope_lab.user_files import COPY, check_source, file_of, is_user_file

HISTORY = ("train_loss", "train_error", "test_error")  # the rows of each epoch; no measure may have these names

_STATE_SECONDS = 5.0  # between two states in memory, at which the run can stop
_SAVE_SECONDS = 30.0  # between two states on disk
_CACHED_DATA_SETS = 2  # in each process

_DataKey = tuple[str, str, str]
_data_cache: OrderedDict[_DataKey, DataSplit] = OrderedDict()
_data_lock = threading.Lock()


def run(
    experiment: Experiment,
    runs_dir: Path | str,
    *,
    device: torch.device | str | None = None,
    data_root: Path | None = None,
    compiled: bool = False,
    on_progress: Callable[[TrainingProgress], object] | None = None,
    on_measure: Callable[[str | None], object] | None = None,
    stop: Callable[[], bool] | None = None,
    save_every: float = _SAVE_SECONDS,
    on_repair: Callable[[str], object] | None = None,
) -> RunFolder:
    """Train and measure one network, and store everything in the folder of this experiment below ``runs_dir``.

    A run that has ended is not repeated. A run that was killed or stopped continues from its last saved state and gives
    the same numbers as an uninterrupted one. If an error occurs inside the run, its status is "failed" and its result
    holds the message; the next start tries again. A measure that is not possible (exact regions of a tanh network, too
    many regions) has no value, and the result has a note. Raises ``InputError`` for unknown names, before any work, and
    ``Busy`` (another process works on the run), ``DiskFull``, ``LockLost`` or ``Stopped``.

    device: "cpu" by default. data_root: folder of the data. compiled: whether to train with a compiled step on CUDA
    (see ``train``); the provenance of the run notes it. stop: called every few seconds; if it returns True, the state
    is saved and ``Stopped`` is raised. save_every: seconds between two saved states. on_repair: called with a
    message for each damaged file. on_measure: called with the name of a measure when it begins, and None when it ends.
    """
    check(experiment)
    folder = RunFolder.create(runs_dir, experiment)
    try:
        if not folder.is_done:
            with folder.claim():
                if not folder.verify():  # else it ended between the look and the claim, or only weights were damaged
                    work = partial(
                        _train_and_measure, folder, device, data_root, compiled=compiled, on_progress=on_progress,
                        on_measure=on_measure, stop=stop, save_every=save_every,
                    )  # fmt: skip
                    _run_claimed(folder, work, stop)
    finally:
        if on_repair is not None:
            for sentence in folder.repaired:
                on_repair(sentence)
    return folder


def _run_claimed(folder: RunFolder, work: Callable[[], dict[str, Any]], stop: Callable[[], bool] | None) -> None:
    """Work on a claimed folder; an error is stored as the run's result."""
    folder.begin_again()
    try:
        if stop is not None and stop():
            raise Stopped(_stopped(folder))
        folder.finish(work())
    except (Busy, DiskFull, LockLost, Stopped):
        raise
    except Exception as error:  # noqa: BLE001 - a run may fail in any way, and the sweep goes on
        folder.finish(failure(error))


def check(experiment: Experiment) -> None:
    """Raise ``InputError`` for an unknown name or option of the data, the network or a measure, and for a value of an
    option of a measure that can never work.
    """
    check_instance("experiment", experiment, Experiment, advice="Write Experiment(data=..., network=...)")
    for spec in (experiment.data, experiment.network):
        check_source(spec.name, spec.source)
    check_data_options(experiment.data.name, experiment.data.options)
    zoo.check_options(experiment.network.name, experiment.network.options)
    for measure in experiment.measures:
        if measure.name in HISTORY:
            raise InputError(
                f"Expected a name that runs do not use themselves, got {measure.name!r} for a measure. "
                "Rename the measure."
            )
        instruments.check(measure)
        parse_schedule(measure.when)
    parse_schedule(experiment.training.checkpoints)


def prepare(experiment: Experiment, *, device: torch.device | str = "cpu", data_root: Path | None = None) -> list[str]:
    """Raise the errors that would stop a run at its start (no such device, data or network) before anything is stored.

    Loads the data, which stay in memory for ``run``, and passes two inputs through the untrained network. Returns
    sentences about what may surprise: your own network whose initial weights are the same for every seed.
    """
    check(experiment)
    split = _data(experiment.data, data_root, read_device(device))
    model = _network(experiment, split).eval()
    inputs = split.train.inputs[:2].to("cpu", next((tensor.dtype for tensor in model.parameters()), torch.float32))
    wanted = (len(inputs), split.n_classes)
    try:
        with torch.no_grad():
            outputs = model(inputs)
    except Exception as error:  # the user's code may raise anything
        raise InputError(
            f"Expected {experiment.network.name} to accept inputs of shape {tuple(inputs.shape)}, got "
            f"{described(error)} Reshape the inputs, or change the network."
        ) from error
    if not isinstance(outputs, Tensor) or outputs.shape != wanted:
        got = f"shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else type(outputs).__name__
        raise InputError(
            f"Expected {experiment.network.name} to return a tensor of shape {wanted}, got {got}. Give it an "
            "output for each class, or choose one of several outputs with output= (network.output)."
        )
    if is_user_file(experiment.network.name) and _same_for_another_seed(experiment, split):
        name = experiment.network.name
        return [
            f"The initial weights of {name} do not depend on the seed: the function sets a seed itself, or loads "
            "weights. Another seed changes only the order of the batches."
        ]
    return []


def _same_for_another_seed(experiment: Experiment, split: DataSplit) -> bool:
    other = replace(experiment, seed=1 if experiment.seed == 0 else 0)
    mine, others = (_network(sample, split).state_dict() for sample in (experiment, other))
    return all(torch.equal(value, others[name]) for name, value in mine.items())


def _network(experiment: Experiment, split: DataSplit) -> nn.Module:
    spec = experiment.network
    return zoo.build(
        spec.name,
        classes=split.n_classes,
        input_shape=split.input_shape,
        seed=experiment.seed,
        output=spec.output,
        **spec.options,
    )


def fail(experiment: Experiment, runs_dir: Path | str, sentence: str) -> None:
    """Store that a run failed whose own process died.

    Nothing is stored if another process has taken the run over, or if the disk is full; the next start finds the run
    unfinished either way.
    """
    with suppress(Busy, DiskFull, LockLost):
        folder = RunFolder.create(runs_dir, experiment)
        with folder.claim():
            if not folder.verify():
                folder.finish({"status": "failed", "error": sentence, "measures": {}})


def failure(error: Exception) -> dict[str, Any]:
    """A failed run's result."""
    known = isinstance(error, RegionscopeError)
    first = first_line(error)
    return {"status": "failed", "error": first if known else f"{type(error).__name__}: {first}", "measures": {}}


def _train_and_measure(
    folder: RunFolder,
    device: torch.device | str | None,
    data_root: Path | None,
    *,
    compiled: bool,
    on_progress: Callable[[TrainingProgress], object] | None,
    on_measure: Callable[[str | None], object] | None,
    stop: Callable[[], bool] | None,
    save_every: float,
) -> dict[str, Any]:
    experiment, device = folder.experiment, read_device("cpu" if device is None else device)
    split = _data(experiment.data, data_root, device)
    made_with = run_provenance(device=device, seed=experiment.seed)
    folder.describe({**made_with, **({"compiled": True} if compiled and device.type == "cuda" else {})}, split)
    spec = experiment.network
    model = _network(experiment, split)
    if is_user_file(spec.name):
        write_bytes(folder.path / COPY, file_of(spec.name).read_bytes())
    initial = {name: value.detach().clone() for name, value in model.state_dict().items()}
    state = folder.load_state()
    trained = train(
        model,
        split,
        experiment.training,
        seed=experiment.seed,
        device=device,
        replay=not is_user_file(spec.name),  # the networks of the zoo do the same in every step
        compiled=compiled,
        monitors=_monitors(folder, split, initial, on_measure or (lambda name: None)),
        state=state,
        save_state=(saver := _Saver(folder, stop, save_every)),
        state_every=min(_STATE_SECONDS, save_every),
        on_checkpoint=saver.checkpoint,
        on_epoch=lambda row: folder.append(_epoch_rows(row)),
        on_progress=on_progress,
    )
    return _result(trained, folder.rows())


class _Saver:
    """Stores checkpoints, and a state every few seconds; stops the training if ``stop`` returns True."""

    def __init__(self, folder: RunFolder, stop: Callable[[], bool] | None, every: float) -> None:
        self.folder, self.stop, self.every = folder, stop, every
        self.due = time.monotonic() + every

    def checkpoint(self, step: int, epoch: int, model: nn.Module) -> None:
        self.folder.save_checkpoint(step, epoch, model)
        self.due = 0.0  # its state follows

    def __call__(self, state: TrainState) -> None:
        stopping = self.stop is not None and self.stop()
        if stopping or time.monotonic() >= self.due:
            self.folder.save_state(state)
            self.due = time.monotonic() + self.every
        if stopping:
            raise Stopped(_stopped(self.folder))


class _StoringMonitor(Monitor):
    """A monitor that stores its rows in the run's folder, and stops the training if they cannot be stored.

    If the instrument cannot measure this network, the row has no value and a note with the reason.
    """

    def __init__(
        self, folder: RunFolder, name: str, measure: Callable[[Any], Any], when: str, done: list[Row],
        on_measure: Callable[[str | None], object],
    ) -> None:  # fmt: skip
        super().__init__({name: self._or_note}, when, done=done)
        self._folder, self._instrument, self._why, self._on_measure = folder, measure, "", on_measure
        # Instruments have generators of their own; watching them for others takes up to three times the time.
        self._without_randomness.add(name)

    def measure(self, step: int, model: nn.Module) -> tuple[Row, ...]:
        self._why = ""
        rows = super().measure(step, model)
        note = {"note": self._why} if self._why else {}
        self._folder.append([asdict(row) | note for row in rows])
        return rows

    def _or_note(self, model: nn.Module) -> Any:
        self._on_measure(self.names[0])
        try:
            return self._instrument(model)
        except RegionscopeError as error:
            self._why = first_line(error)
            return math.nan
        finally:
            self._on_measure(None)


def _monitors(
    folder: RunFolder, split: DataSplit, initial: Mapping[str, Tensor], on_measure: Callable[[str | None], object]
) -> list[Monitor]:
    experiment = folder.experiment
    done = [Row.from_dict(row) for row in folder.rows() if row["name"] not in HISTORY]
    monitors: list[Monitor] = []
    seed = measure_seed(experiment)
    loss = "mse" if experiment.training.loss == "mse" else "cross_entropy"  # of the outputs, which "next_token" is too
    for spec in experiment.measures:
        measure = instruments.build(spec, split, seed=seed, initial=initial, loss=loss)
        monitors.append(_StoringMonitor(folder, spec.name, measure, spec.when, done, on_measure))
    return monitors


def _data(spec: DataSpec, root: Path | None, device: torch.device) -> DataSplit:
    """The data on its device. The last data sets stay there, so that the runs of a sweep share them."""
    text = json.dumps(asdict(spec), sort_keys=True)
    key = (text, str(root), str(device))
    with _data_lock:
        if key not in _data_cache:
            _data_cache[key] = load(spec, root=root).to(device)
            while len(_data_cache) > _CACHED_DATA_SETS:
                _data_cache.popitem(last=False)
        _data_cache.move_to_end(key)
        return _data_cache[key]


def _epoch_rows(row: EpochRow) -> list[dict[str, Any]]:
    values = dict(zip(HISTORY, (row.loss, row.train_error, row.test_error), strict=True))
    return [
        {"step": row.step, "epoch": row.epoch, "name": name, "value": value, "stderr": None, "seconds": row.seconds}
        for name, value in values.items()
        if value is not None
    ]


def _result(trained: Trained, rows: list[dict[str, Any]]) -> dict[str, Any]:
    last = trained.last
    why = dict.fromkeys(f"{row['name']}: {row['note']}" for row in rows if row.get("note"))
    note = " ".join(why)
    known = last.train_error is not None and last.test_error is not None
    return {
        "status": trained.status,
        "epochs": last.epoch,
        "steps": trained.steps,
        "seconds": trained.seconds,
        "train_loss": last.loss,
        "train_error": last.train_error,
        "test_error": last.test_error,
        "gap": last.test_error - last.train_error if known else None,  # type: ignore[operator]
        "measures": _last_values(rows),
        **({"note": note} if note else {}),
    }


def _last_values(rows: list[dict[str, Any]]) -> Mapping[str, dict[str, Any]]:
    """The last value of each measure."""
    last: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: int(row["step"])):
        if row["name"] not in HISTORY:
            last[row["name"]] = {"value": row["value"], "stderr": row["stderr"]}
    return last


def _stopped(folder: RunFolder) -> str:
    return f"{folder.experiment.label} was stopped; its state is saved in {folder.path}. Run it again to resume."
