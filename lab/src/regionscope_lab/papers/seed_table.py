"""The stored runs of studies as one table: a row for each seed of each setting, with its curves and its last values.

It reads ``runs/KEY/`` and ``computed/`` in a folder, in an archive that ``paper pack`` wrote, or in several of them. No
weights are needed, and nothing is computed.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from regionscope.errors import InputError
from regionscope.types import FloatArray
from regionscope_lab.config import Experiment
from regionscope_lab.store import ENDED
from regionscope_lab.sweep.settings import used_settings

_SAME_LOOK = 0.01  # share of the steps within which the last two looks count as one
_ENDED = {status if isinstance(status, str) else str(status) for status in ENDED}
Read = Callable[[], bytes]


@dataclass(frozen=True, eq=False)
class Curve:
    """One number of one run over training, with standard errors over the points at which it was measured (or NaN)."""

    steps: tuple[int, ...]
    values: FloatArray
    errors: FloatArray

    def place(self, step: float) -> int:
        """The index of the measurement that is nearest to ``step``."""
        return min(range(len(self.steps)), key=lambda i: abs(self.steps[i] - step))


@dataclass(frozen=True, eq=False)
class SeedRun:
    """A run that ended: its settings by dotted key, its result, and its rows by name."""

    key: str
    settings: Mapping[str, Any]
    result: Mapping[str, Any]
    read_rows: Read

    def __getitem__(self, setting: str) -> Any:
        return self.settings.get(setting)

    @property
    def seed(self) -> int:
        return int(self.settings["seed"])

    @cached_property
    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """The measurements by name, in the order of the steps."""
        by_name: dict[str, list[dict[str, Any]]] = {}
        for line in self.read_rows().decode().splitlines():
            row = json.loads(line)
            by_name.setdefault(row["name"], []).append(row)
        return by_name

    def curve(self, name: str) -> Curve:
        """The measurements called ``name``, without one that comes at most 1% of the steps before the last."""
        rows = {int(row["step"]): row for row in self.rows.get(name, ())}
        steps = sorted(rows)
        if len(steps) < 2:
            raise InputError(f"Expected a curve {name!r} in run {self.key}, got {len(steps)} rows. Train it again.")
        if len(steps) > 2 and steps[-1] - steps[-2] <= _SAME_LOOK * steps[-1]:
            del steps[-2]
        values = np.array([rows[step]["value"] for step in steps], dtype=np.float64)
        errors = [rows[step].get("stderr", rows[step].get("spread")) for step in steps]
        return Curve(tuple(steps), values, np.array(errors, dtype=np.float64))

    @cached_property
    def last(self) -> dict[str, float]:
        """The last value of each measure; errors, gap and accuracy in percent. Without what is not finite."""
        measures = self.result.get("measures", {})
        values = {name: float(one["value"]) for name, one in measures.items() if one["value"] is not None}
        if self.result.get("gap") is not None:
            train, test = 100 * self.result["train_error"], 100 * self.result["test_error"]
            values |= {"train_error": train, "test_error": test, "gap": test - train, "test_accuracy": 100 - test}
        return {name: value for name, value in values.items() if np.isfinite(value)}


@dataclass(frozen=True, eq=False)
class SeedTable:
    """Runs by key, and stored answers of computations by the name of the function."""

    runs: Mapping[str, SeedRun]
    computed: Mapping[str, Sequence[Mapping[str, Any]]]

    @staticmethod
    def read(*places: Path) -> SeedTable:
        """The ended runs and the answers in folders or archives."""
        files = {name: read for place in places for name, read in _files(place).items()}
        runs, computed = {}, dict[str, list[Mapping[str, Any]]]()
        for name, read in sorted(files.items()):
            top, _, rest = name.partition("/")
            if top == "computed":
                computed.setdefault(rest.rsplit("-", 1)[0], []).append(json.loads(read()))
            elif rest.endswith("/result.json"):
                key, result = rest.split("/")[0], json.loads(read())
                if result.get("status") in _ENDED and f"runs/{key}/config.json" in files:
                    config = json.loads(files[f"runs/{key}/config.json"]())
                    rows = files.get(f"runs/{key}/rows.jsonl", bytes)
                    runs[key] = SeedRun(key, used_settings(config), result, rows)
        return SeedTable(runs, computed)

    def of(self, experiments: Iterable[Experiment], *, lacking: bool = False) -> tuple[SeedRun, ...]:
        """The runs of these experiments in their order. lacking: whether some may be missing."""
        wanted = list(experiments)
        absent = [experiment for experiment in wanted if experiment.key not in self.runs]
        if absent and not lacking:
            raise InputError(
                f"Expected {len(wanted)} runs, got {len(wanted) - len(absent)}; there is no {absent[0].label}, for "
                "example. Train them with regionscope-lab paper run and the name of the item."
            )
        return tuple(self.runs[experiment.key] for experiment in wanted if experiment.key in self.runs)

    def answers(self, function: str, **chosen: Any) -> list[dict[str, Any]]:
        """Settings and answers of a stored computation, together, where the settings are those ``chosen``."""
        found = [{**one["settings"], **one["answer"]} for one in self.computed.get(function, ())]
        found = [one for one in found if all(one.get(name) == value for name, value in chosen.items())]
        if not found:
            raise InputError(f"Expected stored answers of {function} with {chosen}, got none. Run the item first.")
        return found


Runs = Mapping[str, Sequence[SeedRun]]
"""The runs of an item by the name of their sweep."""


def by_setting(runs: Iterable[SeedRun], *settings: str) -> dict[Any, tuple[SeedRun, ...]]:
    """The runs that share these settings, in the order of the first of each; one setting gives plain keys."""
    groups: dict[Any, list[SeedRun]] = {}
    for run in runs:
        key = run[settings[0]] if len(settings) == 1 else tuple(run[name] for name in settings)
        groups.setdefault(key, []).append(run)
    return {key: tuple(members) for key, members in groups.items()}


def _files(place: Path) -> dict[str, Read]:
    if place.is_dir():
        if archives := sorted(place.glob("*.zip")):
            return {name: read for archive in archives for name, read in _files(archive).items()}
        paths = [*place.glob("runs/*/*.json*"), *place.glob("computed/*.json")]
        return {path.relative_to(place).as_posix(): path.read_bytes for path in paths}
    if not place.exists():
        raise InputError(f"No runs found at {str(place)!r}. Pass a folder of studies, or an archive of them.")
    with zipfile.ZipFile(place) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    return {name: partial(bytes, raw) for name, raw in content.items()}
