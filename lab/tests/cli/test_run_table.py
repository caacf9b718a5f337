"""The table of runs: what is shown, what goes first where there is no room, and that nothing wraps."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from regionscope_lab.cli.run_table import answer_table, runs_table
from regionscope_lab.sweep import RunTable

SETTINGS = {
    "data.name": "digits", "network.name": "mlp", "training.lr": 0.1, "measures.0.when": "end", "seed": 0,
}  # fmt: skip
RESULTS = {
    "status": "finished", "steps": 9, "train_error": 0.5, "test_error": 0.25, "gap": -0.25,
    "regions": 2.0, "regions.stderr": 0.125,
}  # fmt: skip
WIDE = 200


def runs(*changes: dict[str, Any]) -> RunTable:
    rows = [{"key": f"{n:016d}", **SETTINGS, **RESULTS, **each} for n, each in enumerate(changes)]
    return RunTable(tuple(rows[0]), tuple(rows))


def lines(found: RunTable, width: int, **options: Any) -> tuple[list[str], int]:
    table, left_out = runs_table(found, width=width, **options)
    console = Console(width=width)
    with console.capture() as shown:
        console.print(table)
    return shown.get().splitlines(), left_out


def heads(found: RunTable, width: int, **options: Any) -> list[str]:
    table, _ = runs_table(found, width=width, **options)
    return [str(column.header).replace("\n", "") for column in table.columns]


def test_settings_that_differ_come_before_the_results() -> None:
    found = runs({"training.lr": 0.1}, {"training.lr": 0.01, "measures.0.when": "every 5 epochs"})
    assert heads(found, WIDE) == ["key", "lr", "status", "train_error", "test_error", "gap", "regions"]
    assert lines(found, WIDE)[1] == 0


@pytest.mark.parametrize("width", [30, 40, 50, 60, 70, WIDE])
def test_every_run_is_one_line_and_left_out_columns_are_counted(width: int) -> None:
    found = runs({}, {"training.lr": 0.01})
    printed, left_out = lines(found, width)
    assert len(heads(found, width)) + left_out == 7
    body = [line for line in printed if line.startswith("│")]
    assert len(body) == 2
    assert body[1].startswith("│ 00000000 │")
    assert "…" not in "".join(printed)


def test_the_gap_stays_longest_and_a_status_that_tells_runs_apart_before_it() -> None:
    assert heads(runs({}, {"training.lr": 0.01}), 22) == ["key", "gap"]
    assert heads(runs({}, {"status": "failed"}), 32) == ["key", "status", "gap"]


def test_settings_do_not_push_the_measures_out() -> None:
    many = {f"network.options.width_of_layer_{n}": n for n in range(20)}
    found = runs(dict.fromkeys(many, 0), many)
    found = RunTable((*found.columns, *many), found.rows)
    assert "regions" in heads(found, 80)
    assert "2 ± 0.12" in "".join(lines(found, 80)[0])


def test_all_columns() -> None:
    found = runs({}, {"training.lr": 0.01})
    assert heads(found, 10_000, all_columns=True)[1:4] == ["data.name", "network.name", "training.lr"]
    assert lines(found, 10_000, all_columns=True)[1] == 0


def test_text_in_brackets_is_shown_as_it_is() -> None:
    console = Console(width=80)
    with console.capture() as shown:
        console.print(answer_table(RunTable(("[bold]",), ({"[bold]": "[red]yes"},))))
    assert "[bold]" in shown.get()
    assert "[red]yes" in shown.get()
