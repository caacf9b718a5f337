"""The notebooks of the documentation run from the first cell to the last, and are stored without outputs."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
import torch

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


def test_there_are_four() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["count_regions", "first_look", "local_complexity", "sweep"]


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
