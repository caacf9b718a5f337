"""The programs of the gallery and the notebooks run, and the generated pages show what the benchmarks stored."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib.pyplot as plt
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

    importlib.import_module("regionscope_lab.experiment")  # imported later, it would keep the short training
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


def test_the_page_shows_what_the_benchmarks_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    table = importlib.import_module("table")
    performance, comparison = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("performance", "comparison"))
    assert table.page_tables() in performance, "run: python benchmarks/table.py"
    assert table.peer_tables() in comparison, "run: python benchmarks/table.py"


def test_a_benchmark_is_stored_beside_its_last_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    table = importlib.import_module("table")
    assert len(table.figure().axes[0].lines) >= 5
    monkeypatch.setattr(table, "STORED", tmp_path / "new" / "bench.json")
    row = {"case": "work", "seconds": 2.0, "floor": 1.0, "ratio": 2.0, "peak_gib": None}
    assert "previous" not in table.store("exact-cpu", [row])[0]
    (again,) = table.store("exact-cpu", [{**row, "seconds": 1.0, "ratio": 1.0}])
    assert again["previous"] == {"seconds": 2.0, "ratio": 2.0, "peak_gib": None}
    assert [stored["seconds"] for stored in table.load("exact-cpu")] == [1.0]
    assert table.load("space-cpu") == []


def test_the_guard_names_what_has_become_twice_as_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    guard = importlib.import_module("guard")
    stored = [{"case": "plane", "ratio": 10.0}, {"case": "segment", "ratio": 3.0}]
    now = [{"case": "plane", "ratio": 19.0}, {"case": "segment", "ratio": 6.5}, {"case": "new", "ratio": 99.0}]
    assert guard.doubled(now, stored) == ["segment: 6.5 floors, 3 stored"]
    assert {row["case"] for row in guard.load("guard")} == set(guard.CASES)


FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(autouse=True)
def agg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Figures on no screen, files in a folder of their own, and the random state as before."""
    monkeypatch.chdir(tmp_path)
    state, backend = torch.get_rng_state(), plt.get_backend()
    plt.switch_backend("agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    yield
    plt.close("all")
    plt.switch_backend(backend)
    torch.set_rng_state(state)


def test_the_index_lists_every_notebook() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^(\w+)$", index.split("```{toctree}")[1], re.MULTILINE) == sorted(
        (path.stem for path in NOTEBOOKS), key=index.index
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    for library in ("pandas", "sklearn", "duckdb", "bokeh"):
        pytest.importorskip(library)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for i, cell in enumerate(notebook["cells"]):
            if cell["cell_type"] == "code":
                assert cell["outputs"] == []
                exec(compile("".join(cell["source"]), f"{path.name}, cell {i}", "exec"), names)
    assert f"{{nb-download}}`Download this notebook <{path.name}>`" in "".join(notebook["cells"][0]["source"])
