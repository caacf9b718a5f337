"""Every program of the gallery runs, is short, and ends in one figure and one sentence."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from PIL import Image

import regionscope
from regionscope_lab.shallow import FlowOptions
from regionscope_lab.train import Trained, Training, train

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("*.py"))


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_pages", ROOT / "docs" / "build_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 40 epochs of four steps, and short flows: a program that is run here need not show a good network."""

    def train_in_few_steps(model: Any, data: Any, training: Training, **options: Any) -> Trained:
        few = {name: min(getattr(training, name), 40) for name in ("epochs", "evaluate_every")}
        return train(
            model, data, replace(training, batch_size=len(getattr(data, "train", data)) // 4, **few), **options
        )

    for name in ("experiment", "quickstart"):  # imported later, they would keep the short training for other tests
        importlib.import_module(f"regionscope_lab.{name}")
    monkeypatch.setattr("regionscope_lab.train.train", train_in_few_steps)
    monkeypatch.setattr("regionscope_lab.shallow.FlowOptions", lambda **_: FlowOptions(max_log_loss=10.0))


@pytest.mark.slow
@pytest.mark.usefixtures("short_training")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_ends_in_a_figure_and_a_sentence(path: Path, pages: ModuleType, tmp_path: Path) -> None:
    script = pages.read_script(path)
    assert len(path.read_text(encoding="utf-8").splitlines()) < 40
    random = torch.get_rng_state()
    sentence = pages.run_script(script, tmp_path)
    assert sentence.endswith(".")
    assert len(sentence.splitlines()) == 1
    assert [file.name for file in tmp_path.iterdir()] == [script.picture]
    with Image.open(tmp_path / script.picture) as picture:
        assert picture.width > 400
        assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 20
    assert torch.equal(random, torch.get_rng_state())


def test_the_page_shows_code_picture_and_sentence(pages: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    code = 'from pathlib import Path\n\nPath("one.png").touch()\nprint("It is one.")\n'
    (tmp_path / "scripts" / "one.py").write_text(f'"""A title\n\nA text.\n"""\n\n{code}', encoding="utf-8")
    page = pages.write_gallery(tmp_path / "scripts", tmp_path / "out").read_text(encoding="utf-8")
    for part in ("## A title", "A text.", "```{image} one.png", "*It is one.*", f"```python\n{code}```"):
        assert part in page
    assert (tmp_path / "out" / "one.png").exists()
    (tmp_path / "scripts" / "two.py").write_text("print()", encoding="utf-8")
    with pytest.raises(ValueError, match="needs a docstring"):
        pages.read_script(tmp_path / "scripts" / "two.py")


def test_the_api_pages_have_every_public_name(pages: ModuleType) -> None:
    chapters = sorted((ROOT / "docs" / "api").glob("*.md"))
    text = "".join(pages.list_names(page.read_text(encoding="utf-8")) for page in chapters)
    listed = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    for page in chapters:
        assert page.stem == "index" or f"\n{page.stem}\n" in listed
    for name in set(regionscope.__all__) - set(vars(regionscope.errors)):  # all errors are listed with their module
        assert f"`{name}`" in listed
        assert re.search(rf"regionscope\.{name}(?:\(\))?\n", text) or name == "__version__", name
    folders = ("exact", "measures", "complexity", "sampled", "verification", "plot", "explorer")
    for chapter in (*(f"regionscope.{folder}" for folder in folders), "regionscope_lab.shallow"):
        for name in importlib.import_module(chapter).__all__:
            assert re.search(rf"(?:regionscope|{chapter})\.{name}(?:\(\))?\n", text), f"{chapter}.{name}"


def test_the_page_on_attributions_shows_what_the_benchmark_stored(pages: ModuleType) -> None:
    table = pages.attribution_table(ROOT / "docs" / "benchmarks")
    page = (ROOT / "docs" / "attributions.md").read_text(encoding="utf-8")
    assert table in page, f"put this table there:\n{table}"
    stored = json.loads((ROOT / "docs" / "benchmarks" / "attributions-cpu.json").read_text())
    mlp = stored["rows"][0]
    assert mlp["attributions / partition"] < 3
    assert mlp["gap"] < 1e-10
    assert f"took {mlp['attributions / partition']:.2g} times" in page
    for name in ("extremes / linear_regions", "topology / decision_regions"):
        assert stored["answers"][name] < 0.2


def test_the_page_on_gpus_shows_what_the_benchmarks_stored(pages: ModuleType) -> None:
    table = pages.benchmark_table(ROOT / "docs" / "benchmarks")
    assert table in (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8"), f"put this table there:\n{table}"
    stored = json.loads((ROOT / "docs" / "benchmarks" / "exact-cuda.json").read_text())
    for one in stored:
        assert f"| `linear_regions`, {one['case']}, {one['regions']:,} regions | {one['seconds']:.3g} |" in table
    assert table.count("| `region_count`") == 2
    assert table.count("| `local_complexity`") >= 2


@pytest.mark.parametrize("name", ["surface-cpu", "level-set-cpu", "edge-subdivision-cpu"])
def test_the_page_on_surfaces_shows_what_the_benchmarks_stored(name: str, pages: ModuleType) -> None:
    table = pages.SURFACE_TABLES[name](ROOT / "docs" / "benchmarks")
    assert table in (ROOT / "docs" / "surfaces.md").read_text(encoding="utf-8"), f"put this table there:\n{table}"
    rows = json.loads((ROOT / "docs" / "benchmarks" / f"{name}.json").read_text())["rows"]
    for row in rows:
        if name == "edge-subdivision-cpu":
            assert row["vertices"][0] == row["vertices"][1]
            assert f"| {row['vertices'][0]:,} |" in table
        elif name == "level-set-cpu":
            assert row["ratio"] == pytest.approx(row["linear_regions"] / row["level_set"])
        elif row["method"] == "level_set":
            assert row["largest"] < 1e-12


def test_the_page_on_speed_shows_what_the_benchmarks_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    table = importlib.import_module("table")
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert table.page_tables() in page, "run: python benchmarks/table.py"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert table.README_TABLE.findall(readme) == [table.readme_table()], "run: python benchmarks/table.py"
    streamed = [row for row in table.load("exact-cpu") if "streamed" in row["case"]]
    assert max(row["regions"] for row in streamed) > 1e7
    assert max(row["peak_gib"] for row in streamed) < 1
    assert len(table.figure().axes[0].lines) >= 5
    monkeypatch.setattr(table, "STORED", tmp_path)
    row = {"case": "work", "seconds": 2.0, "floor": 1.0, "ratio": 2.0, "peak_gib": None}
    assert "previous" not in table.store("exact-cpu", [row])[0]
    (again,) = table.store("exact-cpu", [{**row, "seconds": 1.0, "ratio": 1.0}])
    assert again["previous"] == {"seconds": 2.0, "ratio": 2.0, "peak_gib": None}
    assert [each["seconds"] for each in table.load("exact-cpu")] == [1.0]
