"""A sweep: a base experiment and lists of values; every combination is one frozen experiment."""

from __future__ import annotations

import copy
import itertools
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from regionscope.checks import check_instance, read_path, unknown_name
from regionscope.errors import InputError
from regionscope.formatting import counted
from regionscope_lab.config import Experiment, check_names
from regionscope_lab.sweep.settings import labels, used_settings

_MOST = 100_000  # runs of a sweep
_DEEPEST = 32  # tables and lists within each other
_TOO_DEEP = f"Expected tables and lists at most {_DEEPEST} deep, got more. See docs/lab/sweeps.md."
_DOTTED = re.compile(  # the parser takes quadratic time for a key of many parts
    rf"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{_DEEPEST}}}"""
)
_TOP = ("name", "base", "grid", "grids", "measure")
_PARTS = ("data", "network", "training", "measure", "measures", "seed")


@dataclass(frozen=True)
class Sweep:
    """Distinct experiments in a fixed order.

    >>> base = {"data": {"name": "digits"}, "network": {"name": "mlp"}}
    >>> sweep = Sweep.from_dict({"base": base, "grid": {"training.lr": [0.1, 0.01], "seed": [0, 1, 2]}})
    >>> [(run.training.lr, run.seed) for run in sweep][:4]
    [(0.1, 0), (0.1, 1), (0.1, 2), (0.01, 0)]
    """

    experiments: tuple[Experiment, ...]
    name: str = "sweep"

    def __post_init__(self) -> None:
        if not self.experiments:
            raise InputError(
                "Expected at least one value for each key of the grid, got none. Add a value, or remove the key."
            )

    def __iter__(self) -> Iterator[Experiment]:
        return iter(self.experiments)

    def __len__(self) -> int:
        return len(self.experiments)

    def __repr__(self) -> str:
        return f"Sweep({counted(len(self), 'experiment')}, name={self.name!r})"

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The key of each experiment, which names its folder."""
        return tuple(experiment.key for experiment in self.experiments)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One line for each experiment with the settings in which they differ; all lines are distinct."""
        return tuple(
            labels(
                [
                    {"key": key} | used_settings(experiment.to_dict())
                    for key, experiment in zip(self.keys, self, strict=True)
                ]
            )
        )

    @classmethod
    def of(cls, base: Experiment, *, name: str = "sweep", **grid: Sequence[Any]) -> Self:
        """The product of values over ``base``; a dot in a key is written as two underscores: ``training__lr=[...]``."""
        return cls.from_dict(
            {
                "name": name,
                "base": check_instance(
                    "base", base, Experiment, advice="Write Experiment(data=..., network=...)"
                ).to_dict(),
                "grid": {
                    key.replace("__", "."): list(values) if isinstance(values, Iterable) else values
                    for key, values in grid.items()
                },
            }
        )

    @classmethod
    def from_toml(cls, path: Path | str) -> Self:
        """Read a sweep from a TOML file (see docs/lab/sweeps.md)."""
        path = read_path(path)
        try:
            return cls.from_dict({"name": path.stem, **read_toml(path)})
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """``base`` (data, network, training, seed), ``measure`` (a list), ``grid`` or ``grids`` (dotted key: list).

        The values of a grid are combined in the order of its keys, the last one changing fastest; several grids come
        one after the other. An experiment that comes up twice is kept once.
        """
        document = _table("the sweep", document)
        for part in _PARTS:
            if part in document and part not in _TOP:
                raise InputError(
                    f"Expected {part!r} in the base of a sweep, got it at the top. Write it under [base], or a "
                    f"table as [base.{part}]."
                )
        check_names("the sweep", document, _TOP)
        base = _table("base", document.get("base", {}))
        check_names("base", base, _PARTS)
        if "measure" in document:
            base = {**base, "measure": document["measure"]}
        if "grid" in document and "grids" in document:
            raise InputError("Expected [grid] or [[grids]], got both. Write one grid, or several as [[grids]].")
        grids = document.get("grids", [document.get("grid", {})])
        if not isinstance(grids, list):
            raise InputError(f"Expected grids to be a list of tables, got {grids!r}. Write [[grids]] above each.")
        lists = []
        for number, grid in enumerate(grids):
            where = "grid" if "grids" not in document else f"grids[{number}]"
            lists.append(dict(_leaves(where, "", _table(where, grid))))
        runs = sum(math.prod(map(len, values.values())) for values in lists)
        if runs > _MOST:
            raise InputError(f"Expected at most {_MOST:,} runs, got a grid of {runs:,}. Divide it into several sweeps.")
        experiments: dict[str, Experiment] = {}
        for values in lists:
            for chosen in itertools.product(*values.values()):
                experiment = read_experiment(base, dict(zip(values, chosen, strict=True)))
                experiments.setdefault(experiment.key, experiment)
        return cls(tuple(experiments.values()), str(document.get("name", "sweep")))


def read_toml(path: Path | str) -> dict[str, Any]:
    """The content of a TOML file."""
    path = read_path(path)
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"Expected a TOML file at {str(path)!r}, got nothing that can be read ({error.strerror}). Correct the "
            f"path, which starts in the working directory {str(Path.cwd())!r}."
        ) from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except ValueError as error:  # of the decoder, of UTF-8, or of a number of thousands of digits
        raise InputError(
            f"Expected TOML in {path}, got a file that cannot be parsed: {error}. Correct this line of the file."
        ) from error


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ``ValueError`` if it is not TOML, ``InputError`` if it is nested too deeply for settings."""
    if _DOTTED.search(check_instance("text", text, str, advice="Read a file with read_toml(path)")):
        raise InputError(_TOO_DEEP)
    try:
        document = tomllib.loads(text)
    except RecursionError as error:
        raise InputError(_TOO_DEEP) from error
    level: list[Any] = [document]
    for _ in range(_DEEPEST):
        inner = [value for entry in level for value in (entry.values() if isinstance(entry, dict) else entry)]
        level = [value for value in inner if isinstance(value, dict | list)]
        if not level:
            return document
    raise InputError(_TOO_DEEP)


def read_experiment(document: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> Experiment:
    """An experiment from plain tables, with ``settings`` (dotted key: value) on top of them."""
    plain = copy.deepcopy(dict(_table("the experiment", document)))
    if "measure" in plain:
        if plain.get("measures"):
            raise InputError("Expected 'measure' or 'measures', got both. Write the measures as [[measure]] tables.")
        plain["measures"] = plain.pop("measure")
    plain.setdefault("measures", [])
    for key, value in (settings or {}).items():
        override(plain, key, value)
    training = plain.get("training")
    if isinstance(training, Mapping) and training.get("optimizer", "sgd") != "sgd" and "lr" not in training:
        raise InputError(
            f"Expected training.lr with the optimizer {training['optimizer']!r}, got none, and the default is for sgd. "
            "Set training.lr, for example to 0.001."
        )
    return Experiment.from_dict(plain)


def override(document: dict[str, Any], key: str, value: Any) -> None:
    """Set one value in nested tables by its dotted key; ``measures.0.when`` or ``measures.NAME.when`` for a measure."""
    check_instance("document", document, dict, advice="Read one with read_toml(path)")
    names = check_instance("key", key, str, advice="Write a dotted key such as training.lr").split(".")
    if len(names) > _DEEPEST:
        raise InputError(_TOO_DEEP)
    if names[0] == "measure":
        names[0] = "measures"
    if isinstance(document.get(names[0]), str) and len(names) > 1:
        document[names[0]] = {"name": document[names[0]]}  # network = "mlp" is short for network.name = "mlp"
    place: Any = document
    for depth, name in enumerate(names):
        where = ".".join(names[:depth])
        if isinstance(place, list):
            index = _index(place, name)
            if index is None:
                raise unknown_name(f"{key!r} to name an entry of {where}", name, _names(place))
            at: Any = index
        elif isinstance(place, dict):
            at = name
        else:
            raise InputError(f"{key!r}: Expected a table at {where}, got the value {place!r}. Change the key.")
        if depth == len(names) - 1:
            place[at] = copy.deepcopy(value)
            if key in ("network.name", "data.name"):
                place.pop("source", None)  # the hash of another file
        else:
            place = place.setdefault(at, {}) if isinstance(place, dict) else place[at]


def _index(entries: list[Any], name: str) -> int | None:
    if name.isdigit():
        return int(name) if int(name) < len(entries) else None
    return _names(entries).index(name) if name in _names(entries) else None


def _names(entries: list[Any]) -> list[str]:
    """The names of the measures."""
    return [
        str(entry.get("name") or entry.get("instrument")) if isinstance(entry, Mapping) else "?" for entry in entries
    ]


def _leaves(where: str, prefix: str, grid: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Dotted keys and their lists; ``training.lr = [...]`` and ``"training.lr" = [...]`` are the same."""
    for name, values in grid.items():
        key = f"{prefix}{name}"
        if isinstance(values, Mapping):
            yield from _leaves(where, f"{key}.", values)
        elif not isinstance(values, list | tuple):
            raise InputError(f"{where}: Expected a list of values for {key!r}, got {values!r}. Write [{values!r}].")
        elif not values:
            raise InputError(
                f"{where}: Expected at least one value for {key!r}, got an empty list. Add a value or remove the key."
            )
        elif key.split(".")[0] not in _PARTS:
            raise InputError(
                f"{where}: Expected a key that begins with {', '.join(_PARTS)}, got {key!r}. "
                "Write training.lr, for example."
            )
        else:
            yield key, list(values)


def _table(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"Expected {where} to be a table, got {value!r}. Pass a dict, or write a table in TOML.")
    return value
