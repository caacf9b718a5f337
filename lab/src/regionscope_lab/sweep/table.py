"""Runs as a table: one row a run, read from two small files each."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regionscope.checks import read_path, unknown_name
from regionscope.errors import Damaged, InputError
from regionscope.extras import data_frame
from regionscope.file_io import plain, replace_file
from regionscope.formatting import counted
from regionscope.monitor.rows import parse, with_stderr
from regionscope_lab.store import files
from regionscope_lab.store.folder import ENDED, unfinished_status
from regionscope_lab.store.repair import lost_checkpoints
from regionscope_lab.store.row_files import last_row
from regionscope_lab.sweep.settings import labels, used_settings

FIRST, LAST = ("key", "status"), ("error", "note")
NUMBERS = ("epochs", "steps", "seconds", "train_loss", "train_error", "test_error", "gap")
_HIDDEN = ("key", "seconds", "train_loss")  # columns that say little
_MOST_COLUMNS = 8  # in a notebook
SERIES = {"key": str, "step": int, "epoch": int, "name": str, "value": float, "stderr": float, "seconds": float}


@dataclass(frozen=True)
class RunTable:
    """Column names, and rows with a value or None for each."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]

    def __repr__(self) -> str:
        return (
            f"RunTable({len(self)} rows, {len(self.columns)} columns: {', '.join(self.varying()[:6]) or 'all equal'})"
        )

    def _repr_html_(self) -> str:
        """The first runs, and the first measure that varies against the gap or the test error, for a notebook."""
        from regionscope.plot.notebook import MOST_ROWS, Shown, shown_as_html, small_panel, value_with_stderr
        from regionscope_lab.correlation_figure import correlation_scatter

        varying = [name for name in self.varying() if not name.endswith(".stderr")]
        columns = [name for name in varying or self.columns if name not in _HIDDEN]
        if "status" in self.columns and any(row.get("status") != "finished" for row in self.rows):
            columns = ["status", *(name for name in columns if name != "status")]
        columns = columns[:_MOST_COLUMNS]
        rows = [
            [value_with_stderr(row.get(name), row.get(f"{name}.stderr")) for name in columns]
            for row in self.rows[:MOST_ROWS]
        ]
        remark = f"{len(self):,} rows and {len(self.columns)} columns; to_pandas() gives all of them."
        y = next((name for name in ("gap", "test_error") if name in varying), None)
        x = next((name for name in varying if name not in NUMBERS and self._is_measure(name)), None)
        if x is None or y is None:
            return shown_as_html(Shown(columns, rows, None, remark), self)
        pairs = [(row[x], row[y]) for row in self.rows if row.get(x) is not None and row.get(y) is not None]

        def draw(ax: Any) -> None:
            values = [a for a, _ in pairs], [b for _, b in pairs]
            correlation_scatter(*values, ax=ax, fit=None, found=None, x_label=x, y_label=y)

        return shown_as_html(Shown(columns, rows, lambda: small_panel(draw), remark), self)

    def _is_measure(self, name: str) -> bool:
        return f"{name}.stderr" in self.columns and isinstance(self.rows[0].get(name), int | float)

    def __len__(self) -> int:
        return len(self.rows)

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame; missing values are those of pandas."""
        return data_frame({name: self.column(name) for name in self.columns})

    def column(self, name: str) -> list[Any]:
        """The values of one column, one for each run."""
        if name not in self.columns:
            raise unknown_name("a column of the table", name, self.columns)
        return [row.get(name) for row in self.rows]

    def varying(self) -> tuple[str, ...]:
        """The columns in which the runs differ."""
        return tuple(name for name in self.columns if len({json.dumps(row.get(name)) for row in self.rows}) > 1)

    def write_csv(self, path: Path | str) -> None:
        """Write one line per run; a missing value is an empty field."""

        def write(temporary: Path) -> None:
            with temporary.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(self.columns)
                writer.writerows([row.get(name) for name in self.columns] for row in self.rows)

        replace_file(read_path(path), write)


def read_runs(runs_dir: Path | str, *, planned: bool = False) -> RunTable:
    """All runs below a folder: key, status, settings ("training.lr"), results, last value and stderr of each measure.

    In the order of the sweeps that created them. planned: whether to include runs of these sweeps that have no folder
    yet, as "new". Cost: two small files per run.
    """
    runs_dir = read_path(runs_dir)
    order = _plans(runs_dir)
    settings: dict[str, None] = {}
    measures: dict[str, None] = {}
    rows: dict[str, dict[str, Any]] = {}
    for entry in os.scandir(runs_dir):
        if not entry.is_dir() or entry.name.startswith("."):
            continue
        row = _read_run(Path(entry.path), settings, measures)
        if row is not None:
            rows[entry.name] = row
    if planned:
        for key in order:
            rows.setdefault(key, {"key": key, "status": "new"})
    keys = sorted(rows, key=lambda key: (order.get(key, len(order)), key))
    extra = tuple(name for name in LAST if any(row.get(name) for row in rows.values()))
    columns = (*FIRST, *settings, *NUMBERS, *measures, *extra)
    return RunTable(columns, tuple(rows[key] for key in keys))


def read_series(runs_dir: Path | str) -> RunTable:
    """All rows of all runs: (key, step, epoch, name, value, stderr, seconds)."""
    series: list[dict[str, Any]] = []
    for key in [row["key"] for row in read_runs(runs_dir).rows]:
        path = Path(runs_dir) / key / "rows.jsonl"
        if path.is_file():
            whole = parse(path.read_bytes()).rows
            series += [{name: plain(row.get(name)) for name in SERIES} | {"key": key} for row in whole]
    return RunTable(tuple(SERIES), tuple(series))


@dataclass(frozen=True)
class SweepStatus:
    """Progress of a folder of runs: number of runs with each status, and the finished share of running ones."""

    counts: dict[str, int]
    running: dict[str, float]
    labels: dict[str, str]
    mean_seconds: float | None

    def __repr__(self) -> str:
        counts = "".join(f", {status}={n}" for status, n in self.counts.items() if n)
        return f"SweepStatus({counted(self.total, 'run')}{counts})"

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def remaining_seconds(self) -> float | None:
        """Estimate from the mean time of finished runs and the number of running ones; None without either."""
        if self.mean_seconds is None or not self.running:
            return None
        waiting = sum(self.counts.get(status, 0) for status in ("new", "stopped"))
        left = waiting + sum(1 - share for share in self.running.values())
        return left * self.mean_seconds / len(self.running)


def sweep_status(runs_dir: Path | str) -> SweepStatus:
    """Progress of a sweep, read from its folder. The sweep may run on another machine.

    An ended run without one of its checkpoints counts as damaged, and the next ``run_sweep`` repeats it. Damage inside
    checkpoints is detected only then.
    """
    table = read_runs(runs_dir, planned=True)
    for row in table.rows:
        if row["status"] in ENDED and lost_checkpoints(Path(runs_dir) / row["key"]):
            row["status"] = "damaged"
    begun = [row for row in table.rows if "network.name" in row]
    named = {row["key"]: label for row, label in zip(begun, labels(begun), strict=True)}
    running, seconds = {}, []
    for row in table.rows:
        if row["status"] == "running":
            running[row["key"]] = _share(Path(runs_dir) / row["key"], row.get("training.epochs"))
        elif row["status"] == "finished" and row.get("seconds") is not None:
            seconds.append(row["seconds"])
    mean = sum(seconds) / len(seconds) if seconds else None
    return SweepStatus(
        dict(Counter(row["status"] for row in table.rows)), running, {key: named[key] for key in running}, mean
    )


def _plans(runs_dir: Path) -> dict[str, int]:
    """key -> place, over all sweeps that used this folder."""
    if not runs_dir.is_dir():
        raise InputError(f"No folder found at {str(runs_dir)!r}. Pass the folder in which a sweep stored its runs.")
    order: dict[str, int] = {}
    for path in sorted(runs_dir.glob("sweep-*.json"), key=lambda path: path.stat().st_mtime):
        try:
            plan = files.read_document(path)
        except Damaged:
            continue  # only the order is lost; the next sweep run writes it anew
        for key in (plan or {}).get("keys", []):
            order.setdefault(key, len(order))
    return order


def _read_run(path: Path, settings: dict[str, None], measures: dict[str, None]) -> dict[str, Any] | None:
    """One row, its columns added to the known ones; None for a folder that is no run."""
    config, result, damage = _documents(path)
    if config is None and damage == "":
        return None
    row: dict[str, Any] = {"key": path.name}
    flat = used_settings(config or {})
    settings.update(dict.fromkeys(flat))
    row |= flat
    if result is None:
        row["status"] = "damaged" if damage else unfinished_status(path)
        return row | ({"error": damage} if damage else {})
    row["status"] = result.get("status")
    row |= {name: result.get(name) for name in (*NUMBERS, *LAST) if result.get(name) is not None}
    for name, number in result.get("measures", {}).items():
        column = f"measure.{name}" if name in (*FIRST, *NUMBERS, *LAST, *flat) else name
        measures.update({column: None, f"{column}.stderr": None})
        row |= {column: number["value"], f"{column}.stderr": with_stderr(number)["stderr"]}
    return row


def _documents(path: Path) -> tuple[dict[str, Any] | None, dict[str, Any] | None, str]:
    damage = ""
    documents: list[dict[str, Any] | None] = []
    for name in ("config.json", "result.json"):
        try:
            documents.append(files.read_document(path / name))
        except Damaged as error:
            documents.append(None)
            damage = f"{error} The next sweep run repairs it."
    return documents[0], documents[1], damage


def _share(path: Path, epochs: int | None) -> float:
    rows = path / "rows.jsonl"
    row = last_row(rows.read_bytes(), "epoch") if rows.is_file() else None
    return min(1.0, (row or {}).get("epoch", 0) / epochs) if epochs else 0.0
