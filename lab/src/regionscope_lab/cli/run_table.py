"""A table of runs on a terminal: one line for each run, and as many columns as fit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any

from rich.markup import escape
from rich.table import Table

from regionscope.formatting import estimated
from regionscope_lab.config import DataSpec, Experiment, NetworkSpec
from regionscope_lab.sweep import RunTable, differing, flatten, short_names
from regionscope_lab.sweep.settings import is_setting

_ERRORS = ("train_error", "test_error", "gap")
_HIDDEN = ("epochs", "steps", "seconds", "train_loss", "error", "note")
_KEY = 8  # digits of a key that are shown
_AROUND = 3  # the border and two spaces of each column


def agreed(runs: RunTable) -> list[str]:
    """The settings that all runs share, where they are not the defaults."""
    usual = flatten(Experiment(data=DataSpec(name=""), network=NetworkSpec(name="")).to_dict())
    apart = differing(runs.rows)
    same = {name: runs.rows[0].get(name) for name in runs.columns if is_setting(name) and name not in apart}
    return [f"{name} {value}" for name, value in same.items() if usual.get(name) != value]


def runs_table(runs: RunTable, *, width: int, all_columns: bool = False) -> tuple[Table, int]:
    """The table of as many columns as the width takes, and how many were left out.

    Shown are the key, the settings in which the runs differ, the status, errors, gap and measures. Where they do not
    fit, the first to go are a status that all share, the errors, then settings and measures in turn.
    """
    settings = [name for name in differing(runs.rows) if name in runs.columns]
    measures = [name for name in runs.columns if not is_setting(name) and not name.startswith("measures.")]
    measures = [name for name in measures if name not in ("key", "status", *_ERRORS, *_HIDDEN)]
    measures = [name for name in measures if not name.endswith(".stderr")]
    columns = list(runs.columns) if all_columns else ["key", *settings, "status", *_ERRORS, *measures]
    status = ["status"] if "status" in runs.varying() else []
    turns = [name for name in chain(*zip_longest(settings, measures)) if name is not None]
    ranked = list(dict.fromkeys(["key", *status, "gap", *turns, "test_error", "train_error", *columns]))
    short = {name: name for name in columns} | ({} if all_columns else short_names(settings))
    texts = {name: [_header(short[name]), *(_text(name, row) for row in runs.rows)] for name in columns}
    room, kept = width - 1, set[str]()
    for name in ranked:
        needs = _AROUND + max(len(line) for text in texts[name] for line in text.split("\n"))
        if needs <= room:
            kept.add(name)
            room -= needs
    shown = [name for name in columns if name in kept]
    table = Table()
    for name in shown:
        table.add_column(escape(texts[name][0]), justify=_side(name, runs.rows), no_wrap=True)
    for number in range(len(runs.rows)):
        table.add_row(*(escape(texts[name][number + 1]) for name in shown))
    return table, len(columns) - len(shown)


def answer_table(runs: RunTable) -> Table:
    """The result of a query; long texts are wrapped."""
    table = Table()
    for name in runs.columns:
        table.add_column(escape(name), justify=_side(name, runs.rows), overflow="fold")
    for row in runs.rows:
        table.add_row(*(escape(_number(row.get(name))) for name in runs.columns))
    return table


def _header(name: str) -> str:
    """A long name in several lines, so that its column stays narrow."""
    return name.replace("_", "_\n").replace(".", ".\n") if len(name) > _KEY else name


def _side(name: str, rows: Sequence[dict[str, Any]]) -> Any:
    return "right" if all(isinstance(row.get(name), int | float | None) for row in rows) else "left"


def _text(name: str, row: dict[str, Any]) -> str:
    if name == "key":
        return str(row["key"])[:_KEY]
    return _number(row.get(name), row.get(f"{name}.stderr"))


def _number(value: Any, stderr: float | None = None) -> str:
    if value is None:
        return ""
    return estimated(value, stderr) if isinstance(value, float) else str(value)
