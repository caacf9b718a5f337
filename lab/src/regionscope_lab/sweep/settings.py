"""Settings of many runs: as dotted keys, those in which runs differ, and a line that tells each run from the others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

_NAMED = ("data.name", "network.name")  # every label begins with these


def flatten(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested tables to dotted keys. Entries of a list of tables are numbered; other lists become text.

    >>> flatten({"training": {"lr": 0.1}, "measures": [{"when": "end"}], "seed": 0})
    {'training.lr': 0.1, 'measures.0.when': 'end', 'seed': 0}
    """
    flat: dict[str, Any] = {}
    for name, value in document.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{key}.")
        elif isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value):
            flat |= flatten({str(number): entry for number, entry in enumerate(value)}, f"{key}.")
        elif isinstance(value, list):
            flat |= {key: json.dumps(value)} if value else {}
        else:
            flat[key] = value
    return flat


def used_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an experiment as dotted keys, without the momentum where the optimiser has none.

    >>> used_settings({"training": {"optimizer": "adam", "lr": 0.1, "momentum": 0.9}})
    {'training.optimizer': 'adam', 'training.lr': 0.1}
    """
    flat = flatten(document)
    if flat.get("training.optimizer", "sgd") != "sgd":
        flat.pop("training.momentum", None)
    return flat


def differing(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The settings of data, network, training and seed in which the runs differ; measures are left out.

    >>> differing([{"seed": 0, "training.lr": 0.1}, {"seed": 1, "training.lr": 0.1}])
    ('seed',)
    """
    names = dict.fromkeys(name for row in rows for name in row if is_setting(name))
    return tuple(name for name in names if len({json.dumps(row.get(name)) for row in rows}) > 1)


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The last part of each dotted key, or the whole key if two last parts are equal.

    >>> short_names(["training.lr", "data.seed", "seed"])
    {'training.lr': 'lr', 'data.seed': 'data.seed', 'seed': 'seed'}
    """
    last = Counter(name.split(".")[-1] for name in names)
    return {name: end if last[end := name.split(".")[-1]] == 1 else name for name in names}


def labels(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each run: network, data, and the settings in which the runs differ; its key where that is not enough.

    >>> one = {"key": "0123456789abcdef", "network.name": "mlp", "data.name": "digits", "training.lr": 0.1}
    >>> labels([one, one | {"training.lr": 0.01}])
    ['mlp on digits, lr 0.1', 'mlp on digits, lr 0.01']
    """
    shown = short_names([name for name in differing(rows) if name not in _NAMED])
    names = []
    for row in rows:
        parts = [f"{short} {row[name]}" for name, short in shown.items() if row.get(name) is not None]
        names.append(", ".join([f"{row.get('network.name')} on {row.get('data.name')}", *parts]))
    times = Counter(names)
    return [
        f"{label}, key {row['key'][:8]}" if times[label] > 1 else label for label, row in zip(names, rows, strict=True)
    ]


def is_setting(name: str) -> bool:
    """Whether a column of a table of runs is a setting."""
    return name.split(".")[0] in ("data", "network", "training", "seed")
