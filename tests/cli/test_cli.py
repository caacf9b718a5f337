"""``regionscope regions``, ``decisions`` and ``quickstart``: what they print and write."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import safetensors.torch
import torch

import regionscope as rs
from command_line import run
from devices import needs_cuda
from regionscope import plot
from regionscope.cli import options, output
from regionscope.cli.complexity import complexity
from regionscope.cli.count import count
from regionscope.cli.regions import decisions, regions
from regionscope_lab.zoo import mlp
from small_slices import SQUARE


def test_regions_are_counted_without_holding_them(folder: Path) -> None:
    whole = run("regions :build --box -1 1 -o whole.json")
    done = run("regions :build --box -1 1 --count-only -o out.json")
    assert (whole.exit_code, done.exit_code) == (0, 0), done.output
    expected, numbers = (json.loads((folder / name).read_text()) for name in ("whole.json", "out.json"))
    for name in ("activation_regions", "activation_regions_after_layer", "slice"):
        assert numbers[name] == expected[name]
    assert "linear_regions" not in numbers
    assert f"{numbers['activation_regions']:,}" in done.output


def test_regions_on_a_box(folder: Path) -> None:
    done = run("regions :build --box -1 1 -o out.json -o out.png -o out.npz")
    assert done.exit_code == 0, done.output
    part = rs.linear_regions(mlp([2, 8, 8, 2], seed=1), SQUARE)
    numbers = json.loads((folder / "out.json").read_text())
    assert numbers["activation_regions"] == part.n_activation_regions
    assert numbers["linear_regions"] == part.n_linear_regions
    assert numbers["activation_regions_after_layer"] == part.by_layer
    assert numbers["slice"] == {"dim": 2, "input_shape": [2], "size": 4.0}
    assert str(part.n_linear_regions) in done.stdout
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")
    assert rs.Partition.load(folder / "out.npz").n_linear_regions == part.n_linear_regions


def test_decision_on_a_triangle_to_stdout(folder: Path) -> None:
    done = run("decisions :build --points triangle.npy --json -o out.svg -o out.npz")
    assert done.exit_code == 0, done.output
    dec = rs.decision_regions(mlp([2, 8, 8, 2], seed=1), rs.Simplex(np.load("triangle.npy")))
    numbers = json.loads(done.stdout)
    assert numbers["decision_regions"] == dec.count == sum(numbers["decision_regions_with_label"].values())
    assert (folder / "out.svg").exists()
    assert rs.DecisionRegions.load(folder / "out.npz").count == dec.count


def test_classes_have_names_in_the_table_the_json_and_the_picture(folder: Path) -> None:
    words = "decisions :costs --box -3 3 --class-names one,two,three,four,five"
    done = run(f"{words} -o out.json -o out.svg")
    assert done.exit_code == 0, done.output
    numbers = json.loads((folder / "out.json").read_text())
    assert numbers["class_names"] == ["one", "two", "three", "four", "five"]
    for label in numbers["decision_regions_with_label"]:
        name = numbers["class_names"][int(label)]
        assert f"with label {label} ({name})" in done.stdout
        assert f"<!-- {name} -->" in (folder / "out.svg").read_text()  # matplotlib draws letters as shapes
    assert json.loads(run("decisions :build --box -3 3 --json").stdout)["class_names"] is None


def test_the_lowest_output_is_the_largest_of_the_negated_network(folder: Path) -> None:
    costs, square = mlp([2, 12, 12, 5], seed=4), rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 3.0)
    lowest, highest = (
        json.loads(run(f"decisions :costs --box -3 3 --json {flag}").stdout) for flag in ("--lowest", "")
    )
    costs[-1].weight.data.neg_()
    costs[-1].bias.data.neg_()
    dec = rs.decision_regions(costs, square)
    assert (lowest["lowest"], highest["lowest"]) == (True, False)
    assert lowest["decision_regions"] == dec.count
    assert lowest["decision_regions_with_label"] == {str(i): n for i, n in sorted(Counter(dec.labels.tolist()).items())}
    assert lowest["decision_regions_with_label"] != highest["decision_regions_with_label"]


def test_weights_change_the_answer(folder: Path) -> None:
    other = mlp([2, 8, 8, 2], seed=9)
    safetensors.torch.save_file(other.state_dict(), folder / "w.safetensors")
    done = run("regions :build --weights w.safetensors --box -1 1 --json")
    part = rs.linear_regions(other, SQUARE)
    assert json.loads(done.stdout)["activation_regions"] == part.n_activation_regions


def test_flat_points_take_the_input_shape_and_the_engine_its_options(folder: Path) -> None:
    done = run("regions :cnn --points x16.npy --input-shape 1,4,4 --json --max-regions 1000 -o out.pdf")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["slice"]["input_shape"] == [1, 4, 4]
    assert "wrote out.pdf" in done.stderr


def test_a_smooth_network_gets_a_proven_map(folder: Path) -> None:
    words = "decisions :bent --box -3 3 --smooth --undecided 0.02"
    proven = json.loads(run(f"{words} --json").stdout)
    low, high = proven["decision_regions"]
    assert low == high
    assert 0 < proven["undecided"] <= 0.02
    table = run(f"{words} -o map.png").stdout
    assert "undecided share" in table
    assert (folder / "map.png").read_bytes().startswith(b"\x89PNG")
    alone = run("decisions :build --box -3 3 --undecided 0.1")
    assert alone.exit_code == 2
    assert "Expected --undecided with --smooth" in alone.stderr


@needs_cuda
@pytest.mark.parametrize("command", ["regions", "decisions"])
def test_a_gpu_gives_the_same_counts(command: str) -> None:
    found = []
    for device in ("cpu", "cuda"):
        done = run(f"{command} :build --box -1 1 --device {device} --json -o {device}.png")
        assert done.exit_code == 0, done.output
        numbers = json.loads(done.stdout)
        found.append({name: numbers[name] for name in numbers if name.endswith("regions")})
    assert found[0] == found[1] != {}


def test_weights_that_the_code_makes_are_named(folder: Path) -> None:
    assert "The weights are those that net.py:build creates" in run("regions :build --box -1 1").stdout
    assert "The weights are" not in run("regions :build --box -1 1 --json").stdout
    torch.save(mlp([2, 8, 8, 2]).state_dict(), folder / "own.pt")
    own = run("decisions :build --weights own.pt --box -1 1")
    assert own.exit_code == 0, own.output
    assert "The weights are" not in own.stdout


@pytest.mark.parametrize("command", ["regions", "ask extremes --index 0"])
def test_a_box_of_many_dimensions_has_a_limit(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = run(f"{command} :wide --box -1 1 --json")
    tiny = "A slice of 4 dimensions is practical for tiny networks only"
    way = "--plane for the plane of two inputs"
    limited = f"{tiny}. The limit is {{}} regions; pass --max-regions N to raise it, or use {way}.\n"
    assert wide.stderr == limited.format("20,000")
    assert json.loads(wide.stdout)
    assert run(f"{command} :cube --box -1 1 --json").stderr == ""
    monkeypatch.setattr(options, "MANY_REGIONS", 1)
    many = run(f"{command} :wide --box -1 1 --json")
    assert many.exit_code == 2
    assert many.stderr.startswith(limited.format("1"))
    assert "Expected at most --max-regions 1 regions, got more after" in many.stderr
    assert "Raise --max-regions" in many.stderr
    assert run(f"{command} :cube --box -1 1").exit_code == 0  # no limit up to three dimensions
    raised = run(f"{command} :wide --box -1 1 --max-regions 20000 --json")
    assert raised.stderr == f"{tiny}, and can take hours. Use {way}.\n"
    assert raised.exit_code == 0


def test_python_dash_m_is_the_same_program() -> None:
    command = [sys.executable, "-m", "regionscope", "regions", "--box", "a", "b"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, run("regions --box a b").stderr)
    assert done.stderr.startswith("regionscope: ")


def test_certify_reports_a_proof(folder: Path) -> None:
    done = run("regions :build --box -1 1 --certify -o out.json")
    assert done.exit_code == 0, done.output
    assert "certified: " in done.output
    found = json.loads((folder / "out.json").read_text())
    assert found["certificate"]["certified"] is True
    assert found["certificate"]["counts"]["linear"] == found["linear_regions"]
    done = run("decisions :build --points triangle.npy --certify --json")
    assert json.loads(done.stdout)["certificate"]["counts"]["decision"] == json.loads(done.stdout)["decision_regions"]


def test_no_bar_is_drawn_where_there_is_no_terminal() -> None:
    assert "Cutting" not in run("regions :build --box -1 1").output


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_same_result_gives_the_same_picture_on_another_day(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, settings, files = rs.linear_regions(mlp([2, 6, 2], seed=0), SQUARE), dict(matplotlib.rcParams), []
    for day in (1, 2):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(86_400 * day))  # the date that matplotlib writes
        files.append(tmp_path / f"{day}.{kind}")
        output.save_figure(plot.regions_figure(part), files[-1])
    assert files[0].read_bytes() == files[1].read_bytes()
    assert dict(matplotlib.rcParams) == settings


def test_quickstart_writes_its_folder_and_names_the_extra_of_the_explorer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run("quickstart --epochs 1 -o results")
    assert done.exit_code == 0, done.output
    files = {"explorer.html", "model.safetensors", "numbers.json", "regions.png"}
    assert {path.name for path in (folder / "results").iterdir()} == files
    numbers = json.loads((folder / "results" / "numbers.json").read_text())
    for word in ("activation regions after relu3", "decision regions", str(numbers["after"]["decision_regions"])):
        assert word in done.stdout
    assert "Training" not in done.output  # the bar is for terminals, on stderr
    monkeypatch.setitem(sys.modules, "bokeh.embed", None)
    done = run("quickstart --epochs 1 -o without")
    assert done.exit_code == 0, done.output
    assert "pip install 'regionscope[explorer]'" in done.stderr
    assert {path.name for path in (folder / "without").iterdir()} == files - {"explorer.html"}


PYTHON_ONLY = {"model", "inputs", "x", "slice", "tolerance", "on_limit", "jumps"}
PYTHON_ONLY |= {"max_slices", "max_points", "batch_size", "frames", "max_pool"}  # few change them
PYTHON_ONLY |= {"memory", "progress", "alpha", "length", "linear_outputs"}
PYTHON_ONLY |= {"args", "position", "attention_mask"}  # the last two: token ids, not in files
CHOSEN_LATER = {"seed"}  # from --run


@pytest.mark.parametrize(
    ("command", "instrument"),
    [(count, rs.region_count), (complexity, rs.local_complexity), (regions, rs.linear_regions),
     (decisions, rs.decision_regions)],
)  # fmt: skip
def test_a_command_has_the_options_and_the_defaults_of_its_instrument(
    command: Callable[..., Any], instrument: Callable[..., Any]
) -> None:
    offered = inspect.signature(command).parameters
    for name, parameter in inspect.signature(instrument).parameters.items():
        of_lists = name == "dask" and command is not count  # the other commands take one slice
        if name not in PYTHON_ONLY and not of_lists:
            option = {"output": "head"}.get(name, name)
            assert option in offered, f"{command.__name__} lacks {name}"
            assert offered[option].default == parameter.default or name in CHOSEN_LATER
