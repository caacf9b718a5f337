"""Results of sweeps: the table of the runs, queries in SQL, exported files and the status."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from regionscope.errors import InputError
from regionscope_lab.store import RunFolder
from regionscope_lab.sweep import Sweep, query, read_runs, read_series, run_sweep, sweep_status, write_parquet
from regionscope_lab.sweep.settings import flatten
from small_sweep import BASE, small


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


def test_measures_called_as_columns_of_a_run_are_kept_apart(tmp_path: Path) -> None:
    names = ("error", "note", "status")
    measures = [{"instrument": "error_rate", "name": name} for name in names]
    run_sweep(Sweep.from_dict({"base": BASE, "measure": measures, "grid": {"seed": [0]}}), tmp_path)
    table = read_runs(tmp_path)
    (row,) = table.rows
    assert len(set(table.columns)) == len(table.columns)
    assert row["status"] == "finished"
    assert [row[f"measure.{name}"] for name in names] == [row["test_error"]] * 3
    assert not {"error", "note"} & set(table.columns)


def test_the_time_series_of_all_runs(runs: Path) -> None:
    series = read_series(runs)
    for row in read_runs(runs).rows:
        mine = [each for each in series.rows if each["key"] == row["key"]]
        assert len(mine) == len(RunFolder.open(runs / row["key"]).rows())


def test_questions_in_sql(runs: Path) -> None:
    found = query(runs, 'SELECT "training.lr" AS lr, count(*) AS n FROM runs GROUP BY ALL ORDER BY lr')
    assert [(row["lr"], row["n"]) for row in found.rows] == [(0.05, 2), (0.1, 2), (1e30, 2)]
    both = query(runs, "SELECT r.key FROM runs r JOIN rows s USING (key) WHERE s.name = 'test_error' AND s.epoch = 2")
    assert len(both) == 4
    with pytest.raises(InputError, match=r"The query failed: .*nothere"):
        query(runs, "SELECT nothere FROM runs")
    for sql in ("SELECT training.lr FROM runs", "SELECT key FROM runs WHERE training.lr > 0.1"):
        with pytest.raises(
            InputError, match=r'a column with a dot, got training\.lr in the query\. Write "training\.lr"'
        ):
            query(runs, sql)


def test_columns_of_one_name_are_kept_apart(runs: Path) -> None:
    found = query(runs, "SELECT 1 AS seed, 2 AS seed, 3 AS seed_2, 4 AS seed")
    assert found.columns == ("seed", "seed_3", "seed_2", "seed_4")
    assert found.rows == ({"seed": 1, "seed_3": 2, "seed_2": 3, "seed_4": 4},)
    assert query(runs, "SELECT a.seed, b.seed FROM runs a, runs b").columns == ("seed", "seed_2")


@pytest.mark.parametrize("sql", ["", " -- why?", "CREATE TABLE mine (n INT)", "SET VARIABLE n = 1"])
def test_a_query_that_asks_for_nothing_is_refused(sql: str, runs: Path) -> None:
    with pytest.raises(InputError, match="a query that begins with SELECT"):
        query(runs, sql)
    assert len(query(runs, "SELECT key FROM runs WHERE false")) == 0


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


def test_export_to_csv_and_parquet(runs: Path, tmp_path: Path) -> None:
    import duckdb

    table = read_runs(runs)
    table.write_csv(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["training.lr"]) for line in lines] == table.column("training.lr")
    write_parquet(table, tmp_path / "out.parquet")
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT key, gap FROM '{tmp_path / 'out.parquet'}'").fetchall()
    assert found == [(row["key"], row.get("gap")) for row in table.rows]


def test_sql_and_parquet_have_names_that_differ_in_case_only_and_the_largest_seeds(tmp_path: Path) -> None:
    import duckdb

    measures = [{"instrument": "error_rate", "name": name} for name in ("Gap", "GAP")]
    run_sweep(Sweep.from_dict({"base": BASE, "measure": measures, "grid": {"seed": [0, 2**64 - 1]}}), tmp_path / "runs")
    table = read_runs(tmp_path / "runs")
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


def test_other_folders_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert len(read_runs(tmp_path)) == 0
    with pytest.raises(InputError, match="No folder found at"):
        read_runs(tmp_path / "nothere")


def test_settings_become_columns() -> None:
    assert flatten({"a": {"b": [1, 2], "c": {}}, "m": [{"n": 1}, {"n": None}], "e": []}) == {
        "a.b": "[1, 2]", "m.0.n": 1, "m.1.n": None,
    }  # fmt: skip
