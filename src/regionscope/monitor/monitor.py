"""``Monitor``: names x functions x schedule -> rows."""

from __future__ import annotations

import math
import random
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regionscope.checks import check_module, read_step, unknown_name
from regionscope.errors import InputError, RegionscopeError
from regionscope.extras import data_frame
from regionscope.file_io import cut_torn_line, replace_file
from regionscope.monitor.rows import Row, append_rows, encode, read_rows, readings
from regionscope.monitor.schedule import Schedule, as_schedule, every
from regionscope.network import Draws, device_and_dtype, full_precision, runnable_copy
from regionscope.types import Reading

Measure = Callable[[Any], Any]
"""model -> a number, an Estimate, a RegionCount, a LocalComplexity, or a mapping of names to such things."""

Listener = Callable[[Row], object]


class Monitor:
    """Measure a model at chosen steps of its training, and keep the numbers as rows.

    In your own loop, call ``monitor(step, model)`` after each step; ``lab.train.train`` calls it automatically. The
    functions get a private copy of the model in eval mode, and run without gradients (use ``torch.enable_grad()``
    inside if you need them). The model itself is not changed, and all random states are as before afterwards. You can
    measure in one thread while another one trains: the copy is a snapshot, and ``same_randomness`` documents which
    random states are restored. If a measure fails after it has worked before (too many regions, weights that are not
    finite), training continues: its row is NaN, and a warning and ``failures`` give the reason. An error at the first
    measurement, and any other error, is raised. So is an error if two measures give rows of one name at a step.

    >>> import torch
    >>> model = nn.Linear(2, 1)
    >>> monitor = Monitor({"norm": lambda m: m.weight.norm()}, when=every(2))
    >>> for step in range(5):
    ...     rows = monitor(step, model)
    >>> [(row.step, row.name) for row in monitor.rows]
    [(0, 'norm'), (2, 'norm'), (4, 'norm')]
    """

    def __init__(
        self,
        measures: Mapping[str, Measure],
        when: Schedule | str = every(100),  # noqa: B008 - frozen
        *,
        path: str | Path | None = None,
        listeners: Sequence[Listener] = (),
        steps_per_epoch: int | None = None,
        done: Iterable[Row] = (),
    ) -> None:
        """Nothing is measured yet.

        when: a schedule, or words such as "every 5 epochs" (in a loop of your own these need ``steps_per_epoch``).
        path: a file of JSON lines to append to. Rows that it already holds are read back and not measured again, so
            that a training that was killed and resumed has each row once. One that starts from the beginning beside
            such rows, or before the last of them, is warned: they may be those of another training. See
            ``drop_after``.
        listeners: called with each new row. One that fails is dropped with a warning, and training goes on: the rows
            are in the file and in ``rows``.
        done: rows measured earlier and stored elsewhere; the same as those found in ``path``.
        """
        _check_functions(measures, listeners)
        self.when = as_schedule(when)
        self.steps_per_epoch = steps_per_epoch
        self.failures: list[str] = []
        self._measures = dict(measures)
        self._listeners = list(listeners)
        self._path = None if path is None else Path(path)
        earlier = (*(() if self._path is None else self._resume(self._path)), *done)
        self._rows = {(row.step, row.name): row for row in earlier if self._owner(row.name) is not None}
        self._labels = dict.fromkeys(row.name for row in self._rows.values())
        # The rows of the last step may be incomplete: a kill can come between two of them.
        last = max((step for step, _ in self._rows), default=-1)
        self._done = {(step, self._owner(name)) for step, name in self._rows if step < last}
        self._sources: dict[str, tuple[int, str]] = {}  # of each row name: the last step that has it, and the measure
        self._begun = False
        self._without_randomness: set[str] = set()  # measures that drew no random numbers from torch the first time

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the measures."""
        return tuple(self._measures)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows in the order of their steps, including those of earlier sessions."""
        return tuple(sorted(self._rows.values(), key=lambda row: row.step))

    def values(self, name: str) -> tuple[list[int], list[float]]:
        """Steps and values of the rows called ``name``, to plot or compare.

        A measure that returns several values has a row for each, such as "complexity.train".
        """
        chosen = [row for row in self.rows if row.name == name]
        known = dict.fromkeys(row.name for row in self.rows)
        if not chosen and self._owner(name) is None:
            raise unknown_name("a measure", name, dict.fromkeys((*known, *self._measures)))
        several = [row for row in known if row.startswith(f"{name}.")]
        if not chosen and several:
            raise InputError(
                f"Expected the name of one row, got {name!r}, a measure with several. Choose from {', '.join(several)}."
            )
        return [row.step for row in chosen], [row.value for row in chosen]

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row for each number: step, name, value, stderr and seconds."""
        return data_frame({field.name: [getattr(row, field.name) for row in self.rows] for field in fields(Row)})

    def __repr__(self) -> str:
        return f"Monitor({', '.join(self.names)}; {len(self._rows)} rows)"

    def wants(self, step: int, *, last: bool = False) -> bool:
        """Whether a call at this step would measure anything."""
        step = read_step(step)
        due = last or self.when.includes(step, per_epoch=self.steps_per_epoch)
        return due and any((step, name) not in self._done for name in self._measures)

    def __call__(self, step: int, model: nn.Module, *, last: bool = False) -> tuple[Row, ...]:
        """Measure if the schedule says so (or if this is the last step) and return the new rows."""
        first = not self._begun
        step = self._begin(step)
        later = [row.step for row in self._rows.values() if row.step > step] if first else []
        if later and step > min(row.step for row in self._rows.values()):
            warnings.warn(
                f"There are rows up to step {max(later)}, and this training goes on from step {step}. The later rows "
                "are kept and not measured again, which is right if it repeats these steps bit for bit. Otherwise call "
                "monitor.drop_after(step) first, with the step of the checkpoint.",
                stacklevel=2,
            )
        return self.measure(step, model) if self.wants(step, last=last) else ()

    def measure(self, step: int, model: nn.Module) -> tuple[Row, ...]:
        """Measure now, independently of the schedule, unless this step has been measured; return the new rows."""
        step = self._begin(step)
        check_module(model)
        new: list[Row] = []
        for name in self._measures:
            if (step, name) in self._done:
                continue
            start = time.perf_counter()
            with (
                same_randomness(device_and_dtype(model)[0], watch=name not in self._without_randomness) as draws,
                no_trace(model) as private,
            ):
                numbers = self._read(name, private, step)
            if draws is not None and not draws.happened:
                self._without_randomness.add(name)
            seconds = time.perf_counter() - start
            rows = [Row(step, label, value, stderr, seconds) for label, value, stderr in numbers]
            fresh = [row for row in rows if (row.step, row.name) not in self._rows]
            if self._path is not None:
                append_rows(self._path, fresh)
            self._rows.update({(row.step, row.name): row for row in fresh})
            self._labels.update(dict.fromkeys(row.name for row in fresh))
            self._done.add((step, name))
            new += fresh
            self._notify(fresh)
        return tuple(new)

    def drop_after(self, step: int) -> None:
        """Remove the rows of later steps, from the file too, so that these steps are measured again.

        For a training that goes on from a checkpoint of this step, if it does not repeat the later steps bit for bit:
        the rows after the checkpoint are those of the training that was killed. ``lab.train`` repeats them, and the
        callbacks for Lightning and Hugging Face drop them.
        """
        step = read_step(step)
        dropped = {key for key in self._rows if key[0] > step}
        if dropped and self._path is not None and self._path.exists():
            kept = [row for row in read_rows(self._path) if (row.step, row.name) not in dropped]
            replace_file(self._path, lambda path: path.write_bytes(encode(kept)))
        self._rows = {key: row for key, row in self._rows.items() if key not in dropped}
        self._done = {key for key in self._done if key[0] <= step}

    def _read(self, name: str, model: nn.Module, step: int) -> list[Reading]:
        try:
            numbers = readings(name, self._measures[name](model))
        except RegionscopeError as error:
            known = [label for label in self._labels if self._owner(label) == name]
            if not known:
                raise
            self._warn(f"The measure {name!r} has no value at step {step}: {error}")
            return [(label, math.nan, None) for label in known]
        for label, _, _ in numbers:
            earlier, other = self._sources.get(label, (step, name))
            if earlier == step and other != name:
                raise InputError(
                    f"Expected rows of different names from the measures, got {label!r} from both {other!r} and "
                    f"{name!r} at step {step}. Rename one of these measures."
                )
            self._sources[label] = step, name
        return numbers

    def _resume(self, path: Path) -> tuple[Row, ...]:
        """The rows of an earlier session; its torn last line is cut off, so that rows can be appended."""
        if path.exists():
            cut_torn_line(path)
        return read_rows(path)

    def _warn(self, sentence: str) -> None:
        self.failures.append(sentence)
        warnings.warn(sentence, stacklevel=4)

    def _begin(self, step: int) -> int:
        """The step as an int. Warns once if a training starts at or before rows that the file already has."""
        step = read_step(step)
        if self._begun:
            return step
        self._begun = True
        steps = [earlier for earlier, _ in self._rows]
        if self._path is not None and steps and step <= min(steps):
            warnings.warn(
                f"{self._path} holds rows up to step {max(steps)}; they are kept and not measured again. For another "
                "training remove the file or give another path.",
                stacklevel=3,
            )
        return step

    def _notify(self, rows: Sequence[Row]) -> None:
        """Pass new rows to the listeners; one that fails is dropped."""
        for listener in tuple(self._listeners):
            try:
                with same_randomness():
                    for row in rows:
                        listener(row)
            except Exception as error:  # noqa: BLE001 - the training goes on, whatever a listener raises
                self._listeners.remove(listener)
                name = getattr(listener, "__qualname__", type(listener).__name__)
                self._warn(f"The listener {name} failed and hears no more rows: {error!r}")

    def _owner(self, row_name: str) -> str | None:
        """The measure that a row came from: the longest name that fits."""
        fitting = [name for name in self._measures if row_name == name or row_name.startswith(f"{name}.")]
        return max(fitting, key=len, default=None)


def _check_functions(measures: object, listeners: object) -> None:
    """Raise ``InputError`` unless the measures are named functions, and the listeners a list of functions."""
    if not isinstance(measures, Mapping) or not measures:
        got = "an empty one" if isinstance(measures, Mapping) else f"a {type(measures).__name__}"
        raise InputError(
            f"Expected a mapping from names to functions of the model, got {got}. "
            'Write {"regions": lambda model: ...}.'
        )
    for name, measure in measures.items():
        if not callable(measure):
            raise InputError(
                f"Expected a function of the model for the measure {name!r}, got {type(measure).__name__}. "
                "Wrap it, for example as lambda model: ..."
            )
    if not isinstance(listeners, Sequence) or not all(map(callable, listeners)):
        raise InputError(
            f"Expected listeners to be functions of a row, got {listeners!r}. Pass a list, such as [print]."
        )


# Measure a model in the middle of its training and leave everything as it was, whatever the measure does.


@contextmanager
def no_trace(model: nn.Module) -> Iterator[nn.Module]:
    """Context with a private copy of ``model`` in eval mode, without gradients and with full float32 precision.

    The model itself does not change, so another thread may continue to train it. The copy has the weights of the moment
    at which the context is entered, and the user's hooks, but no compiled code.

    Cost: a copy of the weights.
    """
    # Leaving inference mode brings gradients back, so they are switched off after it.
    with torch.inference_mode(False), torch.no_grad(), full_precision():
        yield runnable_copy(model)


@contextmanager
def same_randomness(device: torch.device | None = None, *, watch: bool = True) -> Iterator[Draws | None]:
    """Restore the random generators of Python, NumPy and torch (CPU and all CUDA devices in use) on exit.

    The generators belong to the whole process. If other threads exist, those of torch are restored only if no other
    thread has drawn from them. To detect this, each operation is watched, which takes up to three times as long. For
    Python and NumPy this cannot be detected; if other threads exist, they are restored in the main thread only.

    device: if other threads exist, the device whose generator is restored besides that of the CPU.
    watch: whether to watch operations if other threads exist; otherwise torch's generators are not restored then.
    Returns the recorded draws, or None if there are no other threads.
    """
    draws = None if threading.active_count() == 1 else Draws(device or torch.device("cpu"))
    python, array = random.getstate(), np.random.get_state()  # noqa: NPY002 - the legacy state is what users share
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices, enabled=draws is None):
        try:
            with draws if draws is not None and watch else nullcontext():
                yield draws
        finally:
            if draws is not None and watch:
                draws.put_back()
            if draws is None or threading.current_thread() is threading.main_thread():
                random.setstate(python)
                np.random.set_state(array)  # noqa: NPY002
