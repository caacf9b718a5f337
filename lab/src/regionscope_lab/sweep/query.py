"""SQL over runs, and Parquet, through DuckDB (no server; it reads what ``read_runs`` read)."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regionscope.checks import check_instance, read_path
from regionscope.errors import InputError
from regionscope.file_io import replace_file
from regionscope_lab.sweep.table import SERIES, RunTable, read_runs, read_series

_LOCKED = ("temp_directory = ''", "enable_external_access = false", "lock_configuration = true")
_TYPES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
_WHOLE = {"BIGINT": range(-(2**63), 2**63), "UBIGINT": range(2**64)}  # a seed may be as large as 2^64 - 1


def query(runs_dir: Path | str, sql: str) -> RunTable:
    """Result of an SQL query on the tables ``runs`` (one row per run) and ``rows`` (the time series).

    Quote a column name with a dot: ``SELECT "training.lr", avg(gap) FROM runs GROUP BY ALL``. Columns of the same name
    are numbered: seed, seed_2. SQL does not tell upper from lower case: a measure called "Gap" is the column Gap_2
    beside gap. The query has access to these tables only: it cannot read or write files, load extensions or change
    settings.
    """
    check_instance("sql", sql, str, advice='Write a query such as "SELECT * FROM runs"')
    import duckdb

    with tempfile.TemporaryDirectory() as scratch, duckdb.connect() as connection:
        _load(connection, "runs", read_runs(runs_dir), Path(scratch))
        if re.search(r"\brows\b", sql, re.IGNORECASE):
            _load(connection, "rows", read_series(runs_dir), Path(scratch))
        for setting in _LOCKED:
            connection.execute(f"SET {setting}")
        try:
            statements = connection.extract_statements(sql)
            answer = connection.execute(sql) if statements else None
            rows = [] if answer is None else answer.fetchall()
        except duckdb.Error as error:
            reason = " ".join(str(error).split())
            table = re.search(r'Referenced table "(\w+)" not found', reason)
            column = table and re.search(rf"\b{table[1]}(\.\w+)+", sql)
            if column:
                raise InputError(
                    f"Expected quotes around the name of a column with a dot, got {column[0]} in the query. "
                    f'Write "{column[0]}".'
                ) from error
            raise InputError(f"The query failed: {reason} Correct it; its tables are runs and rows.") from error
        silent = all(duckdb.ExpectedResultType.NOTHING in statement.expected_result_type for statement in statements)
        if answer is None or (silent and not rows):
            raise InputError(
                f'Expected a query that begins with SELECT, got {sql!r}. Write a query such as "SELECT * FROM runs".'
            )
        columns = _distinct([entry[0] for entry in answer.description])
    return RunTable(columns, tuple(dict(zip(columns, row, strict=True)) for row in rows))


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names, with a number added to those that SQL cannot tell from an earlier one.

    >>> _distinct(["seed", "seed", "gap", "Gap"])
    ('seed', 'seed_2', 'gap', 'Gap_2')
    """
    taken, spellings = {name.lower() for name in names}, dict[str, str]()  # name in lower case -> name
    for name in names:
        new = name
        if name.lower() in spellings:
            new = next(text for number in itertools.count(2) if (text := f"{name}_{number}").lower() not in taken)
        taken.add(new.lower())
        spellings[new.lower()] = new
    return tuple(spellings.values())


def write_parquet(table: RunTable, path: Path | str) -> None:
    """Write a table as Parquet."""
    check_instance("table", table, RunTable, advice="Read one with read_runs(folder)")
    import duckdb

    def write(temporary: Path) -> None:
        try:
            connection.execute("COPY runs TO ? (FORMAT parquet)", [str(temporary)])
        except duckdb.IOException as error:
            raise OSError(" ".join(str(error).split())) from error

    with tempfile.TemporaryDirectory() as scratch, duckdb.connect() as connection:
        _load(connection, "runs", table, Path(scratch))
        replace_file(read_path(path), write)


def _load(connection: Any, name: str, table: RunTable, scratch: Path) -> None:
    """Make a DuckDB table. The types are ours: a key such as 12e4567890123456 must stay a text."""
    file = scratch / f"{name}.json"
    called = dict(zip(table.columns, _distinct(table.columns), strict=True))
    with file.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps({new: row.get(name) for name, new in called.items()}) + "\n" for row in table.rows)
    types = {new: _type(table, name) for name, new in called.items()}
    if not table.rows:
        connection.execute(f"CREATE TABLE {name} ({', '.join(f'{_quoted(c)} {t}' for c, t in types.items())})")
        return
    described = ", ".join(f"'{column.replace(chr(39), chr(39) * 2)}': '{kind}'" for column, kind in types.items())
    connection.execute(
        f"CREATE TABLE {name} AS SELECT * FROM read_json(?, format = 'newline_delimited', columns = {{{described}}})",
        [str(file)],
    )


def _type(table: RunTable, column: str) -> str:
    if column in SERIES:
        return _TYPES[SERIES[column]]
    kinds = {type(row[column]) for row in table.rows if row.get(column) is not None}
    if kinds == {int}:
        values = [row[column] for row in table.rows if row.get(column) is not None]
        return next((kind for kind, most in _WHOLE.items() if all(value in most for value in values)), "VARCHAR")
    if kinds == {int, float}:
        return "DOUBLE"
    return _TYPES.get(kinds.pop(), "VARCHAR") if len(kinds) == 1 else "VARCHAR"


def _quoted(column: str) -> str:
    doubled = column.replace('"', '""')
    return f'"{doubled}"'
