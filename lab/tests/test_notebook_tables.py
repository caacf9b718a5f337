"""Run tables and trainings in a notebook: a small table and a figure of bounded size."""

from __future__ import annotations

import base64
import io
import re

import pytest
from PIL import Image

from regionscope_lab.sweep.table import RunTable
from regionscope_lab.train.state import EpochRow, Trained

ROWS = [
    {"key": f"{i}", "status": "finished", "training.lr": 0.1 * i, "gap": 0.1 + i, "count": 2.0 * i, "count.stderr": 0.1}
    for i in range(40)
]
TABLE = RunTable(("key", "status", "training.lr", "gap", "count", "count.stderr"), tuple(ROWS))
TRAINED = Trained("finished", (EpochRow(1, 5, 0.5, 0.2, 0.3, 1.0), EpochRow(2, 10, 0.4, None, None, 1.0)), 10, 2.0)


@pytest.mark.parametrize("result", [TABLE, TRAINED], ids=["runs", "training"])
def test_a_result_is_a_table_and_a_bounded_figure(result: RunTable | Trained) -> None:
    shown = result._repr_html_()
    assert "<table>" in shown
    (data,) = re.findall(r"base64,([^\"]+)", shown)
    with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
        assert 200 < picture.width < 1200
        assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 10
    assert "\n" not in repr(result)
    assert len(repr(result)) < 200


def test_the_table_has_the_columns_that_vary_and_at_most_twelve_rows() -> None:
    shown = TABLE._repr_html_()
    assert re.findall("<th>(.*?)</th>", shown) == ["training.lr", "gap", "count"]
    assert shown.count("<tr>") == 1 + 12
    assert "40 rows and 6 columns" in shown
    assert "2 ± 0.1" in shown


def test_a_repr_has_the_numbers_that_matter() -> None:
    assert "test_error" not in repr(TRAINED)
    assert "40 rows" in repr(TABLE)


def test_unfinished_runs_show_their_status() -> None:
    stopped = RunTable(TABLE.columns, tuple({**row, "status": "stopped", "gap": None, "count": None} for row in ROWS))
    found = stopped._repr_html_()
    assert "status" in found
    assert "stopped" in found
    assert "status" not in TABLE._repr_html_()


def test_text_of_users_is_escaped() -> None:
    table = RunTable(("<b>", "x"), ({"<b>": "<script>", "x": 1}, {"<b>": "a", "x": 2}))
    found = table._repr_html_()
    assert "<script>" not in found
    assert "&lt;script&gt;" in found


def test_a_result_becomes_a_data_frame() -> None:
    assert list(TABLE.to_pandas().columns) == list(TABLE.columns)
    assert list(TRAINED.to_pandas().columns) == ["epoch", "step", "loss", "train_error", "test_error", "seconds"]
