"""``regionscope-lab regions`` and others: a run is measured on its training data, as its own measures did."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from regionscope.cli import app as library
from regionscope_lab.cli import app
from regionscope_lab.store import RunFolder
from small_files import images

NET = """
from torch import nn

def build(classes=3, input_shape=(1, 4, 4)):
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, classes))
"""
MEASURES = ("region_count", "local_complexity", "complexity_gap", "linear_regions", "decision_regions")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with code, uint8 images, which training normalises, and one run on them."""
    folder = tmp_path_factory.mktemp("trained")
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 1, 4, 4), dtype=np.uint8)
    (folder / "net.py").write_text(NET)
    np.savez(folder / "shapes.npz", x=images, y=np.arange(60) % 3)
    np.save(folder / "two.npy", rng.normal(size=(2, 1, 4, 4)))
    np.save(folder / "flat.npy", rng.normal(size=(30, 16)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        measures = [part for name in MEASURES for part in ("--measure", name)]
        command = "train --model net.py:build --data shapes.npz --epochs 20 --lr 0.1 --seed 3 --set"
        done = run(
            [*command.split(), "training.checkpoints=every 10 epochs", "--set", "training.batch_size=16", *measures]
        )
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(autouse=True)
def inside(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    monkeypatch.setenv("COLUMNS", "120")


def run(command: str | list[str]) -> Result:
    """A command of the lab, or of regionscope where it names its own model and is no training."""
    words = command if isinstance(command, list) else command.split()
    return CliRunner().invoke(library if "--model" in words and words[0] != "train" else app, words)


def measured(command: str) -> Any:
    done = run(f"{command} --json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def stored(name: str) -> dict[str, Any]:
    (folder,) = Path("runs").iterdir()
    result = RunFolder.open(folder).result()
    assert result is not None
    found: dict[str, Any] = result["measures"][name]
    return found


def test_count_gives_the_number_that_the_run_stored() -> None:
    found, wanted = measured("count runs"), stored("region_count")
    assert (found["mean"], found["stderr"]) == (wanted["value"], wanted["stderr"])
    assert found["run"]["step"] == 60
    (weights,) = (name for name in found["provenance"]["files"] if name.endswith("step-00000060.safetensors"))
    by_hand = measured(f"count --model net.py:build --weights {weights} --data shapes.npz --seed {found['seed']}")
    assert by_hand["mean"] != found["mean"]  # pixels from 0 to 255, and the test part too


def test_complexity_gives_the_numbers_that_the_run_stored() -> None:
    found = measured("complexity runs --random 5")
    assert found["local_complexity"]["train"]["mean"] == stored("local_complexity")["value"]
    assert found["train_test_gap"]["value"] == stored("complexity_gap")["value"]
    assert found["local_complexity"]["random"]["points"] == 5


def test_regions_are_counted_on_the_slice_that_the_run_measured() -> None:
    found = measured("regions runs")
    assert found["linear_regions"] == stored("linear_regions")["value"]
    assert measured("decisions runs")["decision_regions"] == stored("decision_regions")["value"]
    Path("two.toml").write_text('points = "two.npy"')
    Path("square.toml").write_text("box = [0, 1]")
    for words, dim in (("--rows 0,5", 1), ("--rows 0,5,7", 2), ("--slice two.toml", 1)):
        assert measured(f"regions runs {words}")["slice"]["dim"] == dim
    assert "6 dimensions for a box, got 16. Pass points" in run("regions runs --slice square.toml").stderr


def test_the_classes_of_a_run_on_images_have_the_names_of_their_folders() -> None:
    for name, image in zip(("cat", "dog", "fox") * 8, images(24, 4, 4), strict=True):
        folder = Path("pictures", name)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{len(list(folder.iterdir()))}.png")
    command = "train --model net.py:build --data ./pictures --epochs 1 --runs named --set data.options.size=4"
    assert run(command).exit_code == 0
    assert measured("decisions named")["class_names"] == ["cat", "dog", "fox"]
    assert measured("decisions runs")["class_names"] is None
    for found in (run("decisions named").stdout, run("ask named topology").stdout):
        assert re.search(r"(label|class) [012] \((cat|dog|fox)\)", found)
    assert run("count named --slices 5 -o count.svg").exit_code == 0
    assert re.search("<!-- (cat|dog|fox) -->", Path("count.svg").read_text(encoding="utf-8"))


def test_count_names_the_classes() -> None:
    words = "count --model net.py:build --data flat.npy --input-shape 1,4,4 --slices 5 --class-names"
    done = run(f"{words} a,b,c -o count.svg")
    assert done.exit_code == 0, done.output
    assert re.search("<!-- [abc] -->", Path("count.svg").read_text(encoding="utf-8"))
    done = run(f"{words} a,b")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Expected 3 class names, got 2." in done.stderr


def test_axes_have_the_names_of_the_columns_of_a_table() -> None:
    rows = "".join(f"{i % 7},{i % 2},{i % 5}\n" for i in range(20))
    Path("table.csv").write_text("width,label,height\n" + rows)
    assert run("train --network mlp --data table.csv --epochs 1 --runs tables").exit_code == 0
    done = run("decisions tables -o map.svg")
    assert done.exit_code == 0, done.output
    found = re.findall("<!-- (input 0|input 1|width|label|height) -->", Path("map.svg").read_text(encoding="utf-8"))
    assert found == ["width", "height"]


def test_an_earlier_step() -> None:
    early, late = (measured(f"regions runs{more}") for more in (" --step 30", ""))
    assert (early["run"]["step"], late["run"]["step"]) == (30, 60)
    assert early["stats"] != late["stats"]


def test_the_table_says_which_weights_were_measured() -> None:
    done = run("count runs --slices 3")
    assert "The weights are those of step 60 of the run runs/" in done.stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("regions runs --step 31", "got 31. Choose from 0, 30, 60."),
        ("regions runs --rows 0,99", "each from 0 to"),
        ("regions runs --rows a,b", "Write numbers such as 0,5,17."),
        ("ask runs topology --rows 0,1", "Pass --rows with three training points."),
        ("ask runs flips", "Pass --rows with two training points."),
        ("regions nothing", "Expected the folder of a run, with a config.json, got 'nothing'"),
    ],
)
def test_a_mistake_is_one_sentence(command: str, said: str) -> None:
    (folder,) = Path("runs").iterdir()
    done = run(command.replace("RUN", str(folder)))
    assert done.exit_code == 2
    assert said in done.stderr.replace("\n", " ")
    assert done.stderr.count("\n") == 1
