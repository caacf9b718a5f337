"""The files of a sweep: damage is said and undone; tables, queries in SQL, exports and the status."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from regionscope.errors import InputError
from regionscope_lab.store import RunFolder
from regionscope_lab.sweep import Sweep, query, read_runs, read_series, run_sweep, sweep_status, write_parquet
from regionscope_lab.sweep.settings import flatten
from small_sweep import BASE, small

SWEEP = Sweep.from_dict(
    {
        "base": {
            "data": {"name": "random_labels", "n_train": 24, "n_test": 12},
            "network": {"name": "mlp", "options": {"width": 4}},
            "training": {"epochs": 2, "batch_size": 12, "checkpoints": "every 1 epochs"},
        }
    }
)
KEY = SWEEP.keys[0]
CHECKPOINT = "checkpoints/step-00000002.safetensors"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("finished")
    assert run_sweep(SWEEP, runs).complete
    return runs


def a_folder(path: Path) -> None:
    """A folder with something in it, where there was a file."""
    if path.is_file():
        path.unlink()
    path.mkdir()
    (path / "more").write_text("x")


def a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


def deep(path: Path) -> None:
    path.write_text("[" * 200_000)


def deep_line(path: Path) -> None:
    path.write_bytes(b"[" * 200_000 + b"\n" + path.read_bytes())


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 1
    path.write_bytes(raw)


def without_seconds(runs: Path) -> tuple[Any, ...]:
    folder = RunFolder.open(runs / KEY)
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in folder.rows()]
    result = folder.result()
    assert result is not None
    return rows, {name: value for name, value in result.items() if name not in ("seconds", "rows")}


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    **{f"folder {name}": (a_folder, f"{KEY}/{name}") for name in ("config.json", "rows.jsonl", "lock", CHECKPOINT)},
    **{f"deep {name}": (deep, f"{KEY}/{name}") for name in ("result.json", "provenance.json")},
    "file for checkpoints": (a_file, f"{KEY}/checkpoints"),
    "file for the run": (a_file, KEY),
    "deep rows": (deep_line, f"{KEY}/rows.jsonl"),
    "flipped checkpoint": (flip, f"{KEY}/{CHECKPOINT}"),
    "deleted checkpoint": (Path.unlink, f"{KEY}/{CHECKPOINT}"),
    "deleted checkpoints": (shutil.rmtree, f"{KEY}/checkpoints"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_said_and_undone(name: str, finished: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(finished, runs)
    damage, place = DAMAGE[name]
    damage(runs / place)
    found = sweep_status(runs)  # looking ends in no traceback
    if name.startswith("deleted checkpoint"):
        assert found.counts == {"damaged": 1}
    read_series(runs)
    report = run_sweep(SWEEP, runs)
    if name == "folder lock":  # nobody needs the lock of a run that has ended
        assert (report.repaired, report.outcomes[0].skipped) == ((), True)
        return
    assert report.complete
    assert any(place.split("/")[-1].removesuffix("s") in sentence for sentence in report.repaired), report.repaired
    assert without_seconds(runs) == without_seconds(finished)
    again = run_sweep(SWEEP, runs)
    assert (again.repaired, again.outcomes[0].skipped) == ((), True)


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (a_folder, "lock"),
        (deep, "state.safetensors"),
        (a_folder, "provenance.json"),
        (deep, "data.json"),
        (deep, "plan"),
    ],
)
def test_a_run_that_has_not_ended(damage: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    looks = iter([False, False])  # those before the training begins
    run_sweep(SWEEP, tmp_path, stop=lambda: next(looks, True))
    assert read_runs(tmp_path).column("status") == ["stopped"]
    place = next(tmp_path.glob("sweep-*.json")) if name == "plan" else tmp_path / KEY / name
    damage(place)
    (tmp_path / "notes").mkdir()  # which is not a run
    assert len(read_runs(tmp_path)) == 1
    report = run_sweep(SWEEP, tmp_path)
    assert [outcome.status for outcome in report.outcomes] == ["finished"]
    if name != "plan":  # which is only an order
        assert any(name in sentence for sentence in report.repaired)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    run_sweep(small(0, 1, **{"training.lr": [0.1, 0.05, 1e30]}), folder)
    return folder


def test_the_table_has_a_row_a_run_in_the_order_of_the_sweep(runs: Path) -> None:
    table = read_runs(runs)
    assert table.column("training.lr") == [0.1, 0.1, 0.05, 0.05, 1e30, 1e30]
    assert table.column("seed") == [0, 1] * 3
    assert table.column("status") == ["finished"] * 4 + ["diverged"] * 2
    assert table.columns[:2] == ("key", "status")
    folder = RunFolder.open(runs / table.rows[0]["key"])
    result = folder.result()
    assert result is not None
    assert table.rows[0]["gap"] == result["gap"]
    assert table.rows[0]["measure.gap"] == result["measures"]["gap"]["value"]  # not mixed up with the run's own gap
    assert {"training.lr", "seed", "key", "gap"} <= set(table.varying())
    assert "training.epochs" not in table.varying()
    with pytest.raises(InputError, match=r"a column of the table, got 'lr'. .*Choose from key, status"):
        table.column("lr")


def test_questions_in_sql(runs: Path) -> None:
    answer = query(runs, 'SELECT "training.lr" AS lr, count(*) AS n FROM runs GROUP BY ALL ORDER BY lr')
    assert [(row["lr"], row["n"]) for row in answer.rows] == [(0.05, 2), (0.1, 2), (1e30, 2)]
    both = query(runs, "SELECT r.key FROM runs r JOIN rows s USING (key) WHERE s.name = 'test_error' AND s.epoch = 2")
    assert len(both) == 4
    same = query(runs, "SELECT 1 AS seed, 2 AS seed, 3 AS seed_2, 4 AS seed")
    assert same.rows == ({"seed": 1, "seed_3": 2, "seed_2": 3, "seed_4": 4},)
    assert len(query(runs, "SELECT key FROM runs WHERE false")) == 0
    for sql, words in (
        ("SELECT nothere FROM runs", r"The query failed: .*nothere"),
        ("SELECT training.lr FROM runs", r'a column with a dot, got training\.lr in the query\. Write "training\.lr"'),
        ("SELECT key FROM runs WHERE training.lr > 0.1", r"a column with a dot, got training\.lr"),
        ("", "a query that begins with SELECT"),
        (" -- why?", "a query that begins with SELECT"),
        ("CREATE TABLE mine (n INT)", "a query that begins with SELECT"),
        ("SET VARIABLE n = 1", "a query that begins with SELECT"),
    ):
        with pytest.raises(InputError, match=words):
            query(runs, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM '{folder}/secret.csv'",
        "SELECT content FROM read_text('{folder}/secret.csv')",
        "SELECT * FROM glob('{folder}/*')",
        "COPY runs TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/out.csv'",
        "ATTACH '{folder}/out.csv' AS other; CREATE TABLE other.copied AS FROM runs; SELECT 1",
        "INSTALL httpfs; SELECT 1",
        "LOAD httpfs; SELECT 1",
        "SET enable_external_access = true; SELECT 1",
        "SET temp_directory = '{folder}'; SELECT 1",
        "SELECT * FROM names",
    ],
)
def test_a_query_sees_the_runs_and_nothing_else(sql: str, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    names = {"a": [1]}
    assert names  # DuckDB would find such a variable of its caller
    with pytest.raises(InputError, match=r"^The query failed: (Permission|Invalid Input|Catalog|IO) Error"):
        query(runs, sql.format(folder=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


def test_export_to_csv(runs: Path, tmp_path: Path) -> None:
    table = read_runs(runs)
    table.write_csv(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["training.lr"]) for line in lines] == table.column("training.lr")


def test_sql_and_parquet_have_names_that_differ_in_case_only_and_the_largest_seeds(tmp_path: Path) -> None:
    measures = [{"instrument": "error_rate", "name": name} for name in ("Gap", "GAP")]
    run_sweep(Sweep.from_dict({"base": BASE, "measure": measures, "grid": {"seed": [0, 2**64 - 1]}}), tmp_path / "runs")
    table = read_runs(tmp_path / "runs")
    assert len(set(table.columns)) == len(table.columns)
    wanted = [tuple(row[name] for name in ("seed", "gap", "Gap", "GAP")) for row in table.rows]
    asked = "SELECT seed, gap, Gap_2, GAP_3 FROM"
    assert [tuple(row.values()) for row in query(tmp_path / "runs", f"{asked} runs").rows] == wanted
    write_parquet(table, tmp_path / "out.parquet")
    with duckdb.connect() as connection:
        assert connection.execute(f"{asked} '{tmp_path / 'out.parquet'}'").fetchall() == wanted


def test_status_knows_what_is_still_to_come(tmp_path: Path) -> None:
    sweep = small(0, 1, 2)
    run_sweep(sweep, tmp_path, stop=lambda: len(list(tmp_path.rglob("result.json"))) >= 1)
    running = RunFolder.create(tmp_path, sweep.experiments[1])
    with running.claim():
        running.append([{"step": 2, "epoch": 1, "name": "train_loss", "value": 1.0}])
        running.append([{"step": 2, "name": "norm", "value": 3.0}])  # a measure's row has no epoch
        status = sweep_status(tmp_path)
    assert status.counts == {"finished": 1, "running": 1, "new": 1}
    assert status.running == {running.key: 0.5}
    assert status.labels == {running.key: "mlp on random_labels, seed 1"}
    assert status.remaining_seconds == pytest.approx(1.5 * status.mean_seconds)
    assert (status.total, sweep_status(tmp_path).counts["stopped"]) == (3, 1)


def test_settings_become_columns() -> None:
    assert flatten({"a": {"b": [1, 2], "c": {}}, "m": [{"n": 1}, {"n": None}], "e": []}) == {
        "a.b": "[1, 2]", "m.0.n": 1, "m.1.n": None,
    }  # fmt: skip
