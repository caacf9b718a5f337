"""``regionscope level-set`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import run


def test_mesh_picture_page_and_numbers_are_written(folder: Path) -> None:
    files = [f"mesh.{suffix}" for suffix in ("ply", "png", "stl", "html")]
    done = run(f"level-set :Diamond --input-shape 3 --box -2 2 --value 0.5 -o numbers.json -o {' -o '.join(files)}")
    assert done.exit_code == 0, done.output
    assert "Euler characteristic" in done.output
    numbers = json.loads((folder / "numbers.json").read_text())
    assert (numbers["faces"], numbers["euler"], numbers["value"]) == (8, 2, 0.5)
    assert numbers["area"] == pytest.approx(4 * 3**0.5 * 1.5**2)
    assert (folder / "mesh.ply").read_text().startswith("ply\n")
    assert (folder / "mesh.stl").stat().st_size == 84 + 50 * 8
    assert (folder / "mesh.png").stat().st_size > 5000
    assert "webgl" in (folder / "mesh.html").read_text()


@pytest.mark.parametrize("surface", ["--classes 0,1", "--index 0 --minus 1"])
def test_classes_and_targets(surface: str) -> None:
    done = run(f"level-set :Two --input-shape 3 --box -1 1 {surface} --json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["area"] == pytest.approx(4 * 2**0.5)
