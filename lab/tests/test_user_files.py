"""Your own networks and data in experiments, by the name of a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from lab_command import run
from regionscope.errors import InputError
from regionscope_lab import zoo
from regionscope_lab.config import DataSpec, Experiment
from regionscope_lab.data import load
from regionscope_lab.data.registry import check_options
from regionscope_lab.store import RunFolder
from regionscope_lab.sweep import read_experiment

NET = """
from torch import nn

def build(classes, input_shape, width=8):
    size = 1
    for n in input_shape:
        size *= n
    return nn.Sequential(nn.Flatten(), nn.Linear(size, width), nn.ReLU(), nn.Linear(width, classes))

class Fixed(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 2))

class Several(Fixed):
    def forward(self, x):
        return {"inputs": x, "logits": super().forward(x)}

def wrong():
    return nn.Linear(2, 7)

network = build(2, (2,))
number = 3
"""
DATA = """
import torch
from torch.utils.data import TensorDataset
from regionscope_lab.data import DataSplit, two_moons

def split(n=40):
    return DataSplit(two_moons(n, seed=0), two_moons(n, seed=1))

def arrays():
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] > 0).long()

def pair():
    x, y = arrays()
    return TensorDataset(x[:20], y[:20]), TensorDataset(x[20:], y[20:])

def nothing():
    return 5
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "data.py").write_text(DATA)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    np.savez(tmp_path / "points.npz", x=x, y=(x[:, 0] > 0).astype(int))
    for i in range(24):
        place = tmp_path / "photos" / "ab"[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)).save(place / f"{i}.png")
    return tmp_path


def save_image(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path)


def experiment(**settings: Any) -> Experiment:
    document = {"data": "points.npz", "network": "net.py:build", "training": {"epochs": 2, "lr": 0.05}}
    return read_experiment(document, settings)


def test_the_file_is_part_of_the_runs_identity(folder: Path) -> None:
    (folder / "small.py").write_text("from regionscope.lab.zoo import dense as build\n")  # is hashed, not run
    first = experiment()
    assert first.network.source
    assert first.data.source
    pinned = Experiment.from_dict({"data": "digits", "network": "small.py:build"})
    assert pinned.key == "bb53b7e904281fb9"  # as for the networks of the zoo, a changed id loses the runs on disk
    assert Experiment.from_dict(first.to_dict()).key == first.key
    (folder / "net.py").write_text(NET + "# another comment\n")
    second = experiment()
    assert second.key != first.key
    assert Experiment.from_dict(first.to_dict()).key == first.key  # a stored run keeps its id
    (folder / "net.py").write_text(NET)
    assert experiment().key == first.key
    np.savez(folder / "points.npz", x=np.zeros((4, 2)), y=np.array([0, 1, 0, 1]))
    assert experiment().key != first.key


def test_train_says_that_the_network_sets_its_own_seed(folder: Path) -> None:
    seeded = "def seeded(classes, input_shape):\n    torch.manual_seed(0)\n    return build(classes, input_shape)\n"
    (folder / "net.py").write_text(f"import torch\n{NET}\n{seeded}")
    done = run("train --data points.npz --model net.py:seeded --epochs 1 --seed 1")
    assert done.exit_code == 0, done.output
    assert "net.py:seeded do not depend on the seed: the function sets a seed itself" in done.stderr
    assert run("train --data points.npz --model net.py:build --epochs 1").stderr == ""


def test_train_your_own_network_on_your_own_data(folder: Path) -> None:
    command = (
        "train --data points.npz --model net.py:build --epochs 2 --measure linear_regions --set network.options.width=5"
    )
    done = run(command)
    assert done.exit_code == 0, done.output
    assert "net.py:build on points.npz" in done.stdout
    again = run(command)
    assert "nothing was trained" in again.stdout
    [stored] = (folder / "runs").iterdir()
    opened = RunFolder.open(stored)
    before = opened.model_at(opened.checkpoints()[-1])
    assert before[1].out_features == 5
    (folder / "net.py").write_text("def build():\n    return None\n")
    after = RunFolder.open(stored).model_at(opened.checkpoints()[-1])  # from the copy in the folder
    assert torch.equal(before[1].weight, after[1].weight)
    (stored / "network.py").unlink()
    with pytest.raises(InputError, match="as it was when the run was made"):
        RunFolder.open(stored).model_at(opened.checkpoints()[-1])


def test_sweep_your_own_network(folder: Path) -> None:
    (folder / "grid.toml").write_text(
        '[base]\nnetwork = "net.py:build"\ndata = "data.py:split"\ntraining.epochs = 1\ntraining.lr = 0.1\n'
        '[grid]\n"network.options.width" = [3, 4]\nseed = [0, 1]\n'
    )
    done = run("sweep run grid.toml --runs runs")
    assert done.exit_code == 0, done.output
    assert "4 runs: 4 finished" in done.stdout
    assert "4 had ended before" in run("sweep run grid.toml --runs runs").stdout
    (folder / "grid.toml").write_text(
        '[base]\nnetwork = {name = "net.py:Several", output = "logits"}\ndata = "data.py:split"\n'
        "training.epochs = 1\n[grid]\nseed = [0, 1]\n"
    )
    chosen = run("sweep run grid.toml --runs runs")
    assert "2 runs: 2 finished" in chosen.stdout, chosen.output


@pytest.mark.parametrize("name", ["data.py:split", "data.py:arrays", "data.py:pair", "points.npz", "./photos"])
def test_both_parts_are_read_and_chosen(name: str) -> None:
    split = load(DataSpec(name=name, n_train=10, n_test=4))
    assert (len(split.train), len(split.test)) == (10, 4)
    assert split.n_classes == 2
    assert split.input_shape == ((3, 6, 6) if name == "./photos" else (2,))
    assert split.train.inputs.dtype == torch.float32
    seen = {tuple(x.flatten().tolist()) for x in split.train.inputs}
    assert not seen & {tuple(x.flatten().tolist()) for x in split.test.inputs}


def test_the_held_out_share_is_that_of_each_class() -> None:
    x, y = np.arange(2000.0).reshape(1000, 2), np.repeat([0, 1], [950, 50])
    np.savez("rare.npz", x=x, y=y)
    split = load(DataSpec(name="rare.npz"))
    assert split.train.labels.bincount().tolist() == [760, 40]
    assert split.test.labels.bincount().tolist() == [190, 10]
    assert sorted((*split.train.inputs[:, 0].tolist(), *split.test.inputs[:, 0].tolist())) == x[:, 0].tolist()
    assert torch.equal(load(DataSpec(name="rare.npz")).test.inputs, split.test.inputs)
    np.savez("single.npz", x=x[:3], y=[0, 1, 2])
    with pytest.raises(InputError, match="got 3 classes of one point each"):
        load(DataSpec(name="single.npz"))


def test_numbers_stay_and_pixels_are_scaled(folder: Path) -> None:
    x = np.load("points.npz")["x"].astype(np.float32)
    assert {tuple(row) for row in load(DataSpec(name="points.npz")).train.inputs.tolist()} <= set(
        map(tuple, x.tolist())
    )
    plain = load(DataSpec(name="./photos", normalise=False))
    assert 0 <= float(plain.train.inputs.min()) < 0.1
    assert 0.9 < float(plain.train.inputs.max()) <= 1
    assert abs(float(load(DataSpec(name="./photos")).train.inputs.mean())) < 1e-5
    flat = load(DataSpec(name="./photos", options={"flatten": True, "size": 3, "test_share": 0.5}))
    assert flat.input_shape == (27,)
    assert len(flat.test) == 12


def test_parts_that_the_data_names_are_kept(folder: Path) -> None:
    for i in range(4):
        for part in ("train", "test"):
            shade = np.full((4, 4), 40 * i + (part == "test"), dtype=np.uint8)
            save_image(folder / "sorted" / part / "ab"[i % 2] / f"{i}.png", shade)
    split = load(DataSpec(name="sorted/", normalise=False))
    assert split.input_shape == (1, 4, 4)
    assert (split.train.inputs[:, 0, 0, 0] * 255).round().tolist() == [0, 80, 40, 120]
    assert (split.test.inputs[:, 0, 0, 0] * 255).round().tolist() == [1, 81, 41, 121]
    np.savez("two.npz", x=np.zeros((4, 3)), y=[0, 1, 2, 0], x_test=np.ones((2, 3)), y_test=[1, 1])
    both = load(DataSpec(name="two.npz"))
    assert both.n_classes == 3
    assert both.test.inputs.tolist() == [[1.0] * 3] * 2


def test_images_of_16_bits_are_scaled(folder: Path) -> None:
    for i, value in enumerate((0, 300, 32768, 65535)):
        save_image(folder / "deep" / "ab"[i // 2] / f"{i}.png", np.full((2, 2), value, dtype=np.uint16))
    split = load(DataSpec(name="deep/", normalise=False, options={"test_share": 0.5}))
    values = torch.cat([split.train.inputs, split.test.inputs])[:, 0, 0, 0].sort().values
    torch.testing.assert_close(values, torch.tensor([0, 300, 32768, 65535]) / 65535, rtol=0, atol=0.5 / 255 + 1e-6)


def test_one_colour_image_makes_all_images_colour(folder: Path) -> None:
    for part in ("train", "test"):
        for i in range(4):
            save_image(folder / "photo" / part / "ab"[i // 2] / f"{i}.png", np.full((2, 2), 10 * i, dtype=np.uint8))
    save_image(folder / "photo" / "test" / "b" / "3.png", np.full((2, 2, 3), (200, 0, 0), dtype=np.uint8))
    split = load(DataSpec(name="photo/", normalise=False))
    assert split.train.inputs.shape == split.test.inputs.shape == (4, 3, 2, 2)
    assert (split.test.inputs[:, :, 0, 0] * 255).round().tolist() == [[0] * 3, [10] * 3, [20] * 3, [200, 0, 0]]


def test_the_classes_are_those_of_the_training_part(folder: Path) -> None:
    for i, place in enumerate(("train/a", "train/b", "test/a", "test/b", "test/zebra")):
        save_image(folder / "some" / place / f"{i}.png", np.zeros((2, 2), dtype=np.uint8))
    with pytest.raises(InputError, match=r"Expected the classes of the training part in .*, got images of zebra too\."):
        load(DataSpec(name="some/"))
    (folder / "some" / "test" / "zebra" / "4.png").unlink()
    (folder / "some" / "train" / ".thumbnails").mkdir()
    assert load(DataSpec(name="some/")).n_classes == 2  # neither an empty folder of the test part nor a hidden one
    (folder / "some" / "train" / "zebra").mkdir()
    with pytest.raises(InputError, match=r"of each class in .*, got none in zebra\. Add images, or remove"):
        load(DataSpec(name="some/"))


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (
            lambda: load(DataSpec(name="data.py:")),
            "FILE.py:FUNCTION, got 'data.py:'.* the function that returns the data",
        ),
        (lambda: zoo.build("net.py:"), "the name of the function that returns the network"),
        (lambda: zoo.build("nothere.py:build"), "Expected an existing network file, got 'nothere"),
        (lambda: check_options("nothere.py:split", {}), "Expected an existing data file, got 'nothere"),
    ],
)
def test_a_message_names_what_is_loaded(read: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("--data points.npz --model nothere.py:build", "Expected a file or folder at 'nothere.py'"),
        ("--data points.npz --model net.py:network", "Expected a function or a class at net.py:network"),
        ("--data points.npz --model net.py:wrong", r"shape (2, 2), got shape (2, 7)"),
        ("--data points.npz --model net.py:build --set network.options.with=3", "Did you mean 'width'?"),
        ("--data ./photos --model net.py:Fixed", "to accept inputs of shape (2, 3, 6, 6), got"),
        ("--data data.py:nothing --model net.py:build", "Return a DataSplit"),
        ("--data data.py:split --model net.py:build --set data.options.m=3", "got 'm'"),
        ("--data bad.npz --model net.py:build", "got a, b. Write it with np.savez"),
        ("--data float.npz --model net.py:build", "Number the classes first"),
        (
            "--data names.npz --model net.py:build",
            "Expected labels y from names.npz to be an array of real numbers, got st",
        ),
        ("--data from1.npz --model net.py:build", "got 1 to 2. Subtract 1, or"),
        ("--data nan.npz --model net.py:build", "got NaN or infinity"),
        ("--data half.csv --model net.py:build", "as labels in column 2 of 'half.csv', after at least one column"),
        ("--data one.csv --model net.py:build", "got 1 column. Put the labels in the last column, or call"),
        (
            "--data none.csv --model net.py:build",
            "Expected examples in 'none.csv', one a line, got none. Write numbers",
        ),
        ("--data mixed/ --model net.py:build", "Set the option size, as in --set data.options.size=32."),
        ("--data ./empty --model net.py:build", "got 0 folders with 0 images"),
        ("--data two_moons --network mlp --measure linear_region", "Did you mean 'linear_regions'?"),
        ("--data two_moons --network mlp --model net.py:build", "got both"),
        ("--data two_moons --network resnet18", "for a convolutional network"),
    ],
)
def test_a_failed_start_is_one_sentence_and_leaves_no_folder(command: str, words: str, folder: Path) -> None:
    np.savez("bad.npz", a=[1], b=[2])
    Path("half.csv").write_text("0,0.5\n1,1\n")
    Path("one.csv").write_text("0\n1\n")
    Path("none.csv").write_text("x,label\n")
    np.savez("float.npz", x=np.zeros((3, 2)), y=[0.0, 1.0, 0.5])
    np.savez("names.npz", x=np.zeros((4, 2)), y=["cat", "dog", "cat", "dog"])
    np.savez("from1.npz", x=np.zeros((4, 2)), y=[1, 2, 1, 2])
    np.savez("nan.npz", x=np.full((3, 2), np.nan), y=[0, 1, 0])
    for name, size in (("a", 3), ("b", 4)):
        save_image(folder / "mixed" / name / "1.png", np.zeros((size, size), dtype=np.uint8))
    (folder / "empty").mkdir()
    done = run(f"train {command}")
    assert done.exit_code == 2, done.output
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (folder / "runs").exists()
