"""Results in a notebook: one line as text, a table and a bounded figure as HTML, a DataFrame on request."""

from __future__ import annotations

import base64
import functools
import importlib
import io
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from PIL import Image

import regionscope as rs
from regionscope.complexity.measure_points import draw_points
from regionscope.errors import InputError
from regionscope.measures.over_slices import over_slices
from regionscope.plot import notebook
from regionscope_lab.zoo import mlp
from small_slices import SQUARE

NET = mlp([2, 8, 8, 3], seed=8)
PART, DECISION = rs.linear_regions(NET, SQUARE), rs.decision_regions(NET, SQUARE)
FLIPS = rs.flips(NET, rs.Segment([-1.0, -1.0], [1.0, 1.0]))
X = torch.rand(12, 2, generator=torch.Generator().manual_seed(0))
COUNT = rs.region_count(NET, X, slices=5)
LOCAL = rs.local_complexity(NET, X, dims=2, radius=0.3)


def watched() -> Any:
    watch = rs.ComplexityWatch(draw_points(X, X, n=4), dims=2, radius=0.3)
    for step in (0, 5):
        watch(step, NET)
    return watch.history


def monitored() -> rs.Monitor:
    monitor = rs.Monitor({"norm": lambda model: 1.5}, when=rs.every(1))
    for step in range(3):
        monitor(step, NET)
    return monitor


RESULTS: dict[str, Any] = {
    "segment": rs.Segment([0.0, 0.0], [3.0, 4.0]),
    "triangle of images": rs.Simplex(torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(1))),
    "box": SQUARE,
    "partition": PART,
    "decision regions": DECISION,
    "count": COUNT,
    "points": rs.regions_at(NET, X),
    "local complexity": LOCAL,
    "history": watched(),
    "monitor": monitored(),
}


@functools.cache
def html_of(name: str) -> str:
    """The HTML of a result, whose figure is drawn once for all tests."""
    return notebook.as_html(RESULTS[name])


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_a_table_and_a_bounded_figure(name: str) -> None:
    found = html_of(name)
    assert "<table>" in found
    assert len(found) < 300_000
    (data,) = re.findall(r"base64,([^\"]+)", found)
    with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
        assert 200 < picture.width < 1200
        assert 100 < picture.height < 1200
        assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 10


def test_a_repr_is_one_line_with_the_numbers_that_matter() -> None:
    assert f"n_linear_regions={PART.n_linear_regions}" in repr(PART)
    assert f"n_activation_regions={len(PART)}" in repr(PART)
    assert f"count={DECISION.count}" in repr(DECISION)
    assert f"area={SQUARE.size:.6g}" in repr(PART)
    assert f"area={SQUARE.size:.6g}" in repr(DECISION)
    values = over_slices(
        lambda block: torch.ones(len(block)), rs.sampled.RandomDirections(X, dim=1, length=1.0), slices=40
    )
    for result in (*RESULTS.values(), values, rs.complexity.deformation(NET, X, dims=2)):
        assert "\n" not in repr(result)
        assert "tensor(" not in repr(result)
    assert all(len(repr(result)) < 200 for result in RESULTS.values())


def test_the_table_has_the_counts_and_curves_are_over_whole_steps() -> None:
    found = html_of("partition")
    for number in (PART.n_linear_regions, PART.n_activation_regions, *PART.by_layer.values()):
        assert f"<td>{number:,}</td>" in found
    assert f"<td>{COUNT.value:.4g} ± {COUNT.stderr:.2g}</td>" in html_of("count")
    draw = notebook._SHOWN[rs.Monitor](RESULTS["monitor"]).figure
    assert draw is not None
    (ax,) = draw().axes
    assert ax.get_xlabel() == "step"
    assert all(float(tick).is_integer() for tick in ax.get_xticks())


def test_every_estimate_has_its_standard_error() -> None:
    level = RESULTS["history"].rows[-1].levels["train"]
    layer, counts = next(iter(LOCAL.by_layer.items()))
    monitor = rs.Monitor({"lc": lambda model: LOCAL, "exact": lambda model: 25103.0})
    monitor(0, NET)
    assert LOCAL.stderr > 0
    assert level.stderr > 0
    shown = notebook.as_html(monitor)
    for found, cells in (
        (html_of("local complexity"), f"<td>{layer}</td><td>{rs.Estimate.of(counts)}".removesuffix(" (n = 12)")),
        (html_of("history"), f"<td>train</td><td>{level.mean:.4g} ± {level.stderr:.2g}"),
        (shown, f"<td>lc</td><td>0</td><td>{LOCAL.mean:.4g} ± {LOCAL.stderr:.2g}"),
        (shown, "<td>exact</td><td>0</td><td>25,103"),
    ):
        assert f"{cells}</td>" in found


def test_large_partitions_have_no_inline_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "MOST_REGIONS", 3)
    found = notebook.as_html(PART)
    assert "base64" not in found
    assert "plot.regions_figure()" in found
    cube = rs.linear_regions(mlp([3, 2, 2]), rs.Box(torch.zeros(3), torch.eye(3), 1.0))
    assert "base64" not in notebook.as_html(cube)


@pytest.fixture
def shell() -> Iterator[Any]:
    """The shell of a notebook, which shows HTML."""
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    made = InteractiveShell.instance()
    made.display_formatter.active_types = made.display_formatter.format_types
    yield made
    InteractiveShell.clear_instance()


def test_ipython_shows_results_with_the_formatters(shell: Any) -> None:
    notebook.register()
    for name, result in RESULTS.items():
        shown, _ = shell.display_formatter.format(result)
        assert shown["text/html"] == html_of(name)
        assert shown["text/plain"] == repr(result)


def test_importing_the_package_in_a_notebook_is_enough(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    printers = shell.display_formatter.formatters["text/html"].type_printers
    assert not set(notebook._SHOWN) & set(printers)
    monkeypatch.setattr(rs, "plot", rs.plot)  # as before after the test
    monkeypatch.delitem(sys.modules, "regionscope.plot")
    importlib.reload(importlib.import_module("regionscope.public"))
    assert set(notebook._SHOWN) <= set(printers)


def test_a_program_without_a_notebook_has_no_formatters(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    printers = shell.display_formatter.formatters["text/html"].type_printers
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    notebook.register()
    assert not set(notebook._SHOWN) & set(printers)
    monkeypatch.undo()
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "IPython")
        before = set(sys.modules)
        notebook.register()
        assert set(sys.modules) == before, "IPython is not imported"
    assert not set(notebook._SHOWN) & set(printers)
    notebook.register()
    assert set(notebook._SHOWN) <= set(printers)


LAYERS = list(RESULTS["history"].rows[0].levels["train"].by_layer)
COLUMNS = {
    "partition": (PART, len(PART), ["linear_region", "size", "corners", "coordinate_1", "coordinate_2"]),
    "decision regions": (DECISION, DECISION.count, ["label", "size", "pieces"]),
    "flips": (FLIPS, len(FLIPS), ["coords", "before", "after", "slope", "slope_before"]),
    "count": (COUNT, 5, ["count"]),
    "local complexity": (LOCAL, 12, ["total", *LOCAL.by_layer]),
    "monitor": (RESULTS["monitor"], 3, ["step", "name", "value", "stderr", "seconds"]),
    "history": (
        RESULTS["history"], 2,
        ["step", "train_accuracy", "test_accuracy",
         *(f"{name}.{what}" for name in RESULTS["history"].names
           for what in ("mean", "std", "stderr", *(f"by_layer.{one}" for one in LAYERS))),
         "gap", "gap.stderr", "gap.auc", "gap.auc.stderr", "gap.n_train", "gap.n_test"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("result", "n", "columns"), COLUMNS.values(), ids=COLUMNS)
def test_a_result_becomes_a_data_frame(result: Any, n: int, columns: list[str]) -> None:
    pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert list(frame.columns) == columns
    assert len(frame) == n


def test_the_data_frame_of_regions_and_how_to_get_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    assert PART.to_pandas()["size"].sum() == pytest.approx(SQUARE.size)
    assert PART.to_pandas()["linear_region"].nunique() == PART.n_linear_regions
    assert DECISION.to_pandas()["pieces"].sum() == len(DECISION.partition)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"to_pandas\(\) needs pandas.*regionscope\[notebook\]"):
        PART.to_pandas()
