from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from regionscope.cli.load import box, hull, infer_input_shape, load_model, load_points, load_weights
from regionscope.errors import InputError, SliceError
from regionscope.geometry import Box, Segment, Simplex
from regionscope_lab.zoo import mlp

NET = """
from torch import nn
from helper_of_net import WIDTH

def build():
    return nn.Sequential(nn.Linear(2, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))

ready = build()
number = 3

class zoo:
    small = ready

def broken():
    raise RuntimeError("first line\\nsecond line")

def needs(width):
    return nn.Linear(width, 1)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "helper_of_net.py").write_text("WIDTH = 5\n")
    (tmp_path / "bad.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "helper_of_net", raising=False)
    monkeypatch.delitem(sys.modules, "net", raising=False)
    return tmp_path


@pytest.mark.parametrize("spec", ["net.py:build", "net:build", "net.py:ready", "net.py:zoo.small", "elsewhere"])
def test_a_model_is_found(folder: Path, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if spec == "elsewhere":
        spec = f"{folder / 'net.py'}:build"
        monkeypatch.chdir("/")
    path = list(sys.path)
    assert isinstance(load_model(spec), nn.Sequential)
    assert sys.path == path


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("net.py", "such as pkg.module:factory"),
        ("net.pt", r"got the weights 'net.pt'. .* load the weights with --weights net.pt\.$"),
        (":build", "such as pkg"),
        ("nothere.py:build", "model file, got 'nothere.py'"),
        ("nothere.module:build", "No module named 'nothere'"),
        ("net.py:missing", "got no such name. Choose from build, ready, zoo, broken, needs."),
        ("net.py:biuld", r"Expected 'biuld' in net.py, got no such name. Did you mean 'build'\? Choose from build, "),
        ("net.py:number", "got int"),
        ("net.py:broken", "RuntimeError: first line. Correct this function.$"),
        ("net.py:needs", "without arguments failed: TypeError.* Give every parameter a default value"),
        ("bad.py:build", "ZeroDivisionError: division by zero. Correct this file.$"),
        ("bad:build", "ZeroDivisionError"),
    ],
)
def test_a_model_that_cannot_be_had(folder: Path, spec: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load_model(spec)


class Malicious:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("__import__('sys').modules.__setitem__('pwned', 1)",)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(pickle.dumps(Malicious()))
    torch.save({"w": Malicious()}, tmp_path / "v.pt")
    for name in ("w.pt", "v.pt"):
        with pytest.raises(InputError, match="which could not be read"):
            load_weights(nn.Linear(1, 1), tmp_path / name)
    assert "pwned" not in sys.modules


@pytest.mark.parametrize(
    ("saved", "sentence"),
    [
        ({"weight": torch.zeros(1, 2)}, "the file lacks 'bias'"),
        ({"weight": torch.zeros(1, 2), "bias": torch.zeros(1), "extra": torch.zeros(1)}, "unknown 'extra'"),
        ({"weight": torch.zeros(3, 2), "bias": torch.zeros(1)}, r"'weight' with shape \(3, 2\) instead of \(1, 2\)"),
        ({"weight": torch.zeros(1, 2).to_sparse(), "bias": torch.zeros(1)}, "'weight' as a sparse tensor"),
        ({"weight": torch.zeros(1, 2), "bias": torch.zeros(1, device="meta")}, "'bias' as a tensor on the device meta"),
        (torch.zeros(3), "got something else"),
        ({"epoch": 3}, "got none among the entries 'epoch'"),
        (
            {"net": {"weight": torch.zeros(1)}, "ema": {"weight": torch.zeros(1)}},
            r"got 2: 'net', 'ema'\. Save one .*torch\.load\(file\)\['net'\]",
        ),
        ({"a.weight": torch.zeros(1, 2), "b.bias": torch.zeros(1)}, "lacks 'bias', 'weight'"),
        ({0: torch.zeros(1, 2), 1: torch.zeros(1)}, "Expected one state dict"),
    ],
)
def test_weights_that_do_not_fit(tmp_path: Path, saved: object, sentence: str) -> None:
    torch.save(saved, tmp_path / "w.pt")
    with pytest.raises(InputError, match=sentence):
        load_weights(nn.Linear(2, 1), tmp_path / "w.pt")


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "model.net."])
@pytest.mark.parametrize("name", ["w.safetensors", "w.pt", "whole.ckpt"])
def test_weights_come_back(tmp_path: Path, prefix: str, name: str) -> None:
    source, target = mlp([2, 3, 2], seed=1), mlp([2, 3, 2], seed=2)
    state = {prefix + key: tensor for key, tensor in source.state_dict().items()}
    checkpoint = {"epoch": 3, "state_dict": state, "optimizer": torch.optim.Adam(source.parameters()).state_dict()}
    if name.endswith("safetensors"):
        safetensors.torch.save_file(state, tmp_path / name)
    else:
        torch.save(checkpoint if name.startswith("whole") else state, tmp_path / name)
    load_weights(target, tmp_path / name)
    assert all(torch.equal(a, b) for a, b in zip(source.parameters(), target.parameters(), strict=True))


def test_weights_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"hello")
    with pytest.raises(InputError, match="Expected a safetensors file"):
        load_weights(nn.Linear(2, 1), tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="does not exist"):
        load_weights(nn.Linear(2, 1), tmp_path / "nothere.pt")


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros(3), "at least two points"),
        (np.zeros((1, 3)), "at least two points"),
        (np.array([["a", "b"], ["c", "d"]]), "real numbers"),
        (np.zeros((2, 3)), "that fit --input-shape"),
    ],
)
def test_points_that_are_none(tmp_path: Path, array: np.ndarray, sentence: str) -> None:
    np.save(tmp_path / "p.npy", array)
    with pytest.raises(InputError, match=sentence):
        load_points(tmp_path / "p.npy", input_shape=(2,))


def test_points_and_hulls(tmp_path: Path) -> None:
    three = np.eye(3, 4)
    np.save(tmp_path / "p.npy", three)
    assert load_points(tmp_path / "p.npy", input_shape=(1, 2, 2)).shape == (3, 1, 2, 2)
    np.save(tmp_path / "one.npy", three[:1])
    assert np.array_equal(load_points(tmp_path / "one.npy", least=1), three[:1])
    np.save(tmp_path / "none.npy", three[:0])
    with pytest.raises(InputError, match="at least one point"):
        load_points(tmp_path / "none.npy", least=1)
    assert isinstance(hull(three[:2]), Segment)
    assert isinstance(hull(three), Simplex)
    with pytest.raises(SliceError):
        hull(three[[0, 0]])


def test_points_of_every_kind_of_file(tmp_path: Path) -> None:
    three = np.eye(3, 4)
    np.save(tmp_path / "p.npy", three)
    np.savez(tmp_path / "p.npz", three)
    np.savez(tmp_path / "data.npz", x=three, y=np.arange(3), more=three[:2])
    torch.save(torch.from_numpy(three), tmp_path / "x.pt")
    torch.save({"x": torch.from_numpy(three), "test": torch.from_numpy(three[:2])}, tmp_path / "both.pt")
    torch.save(torch.eye(3, 4, dtype=torch.bfloat16), tmp_path / "half.pt")
    torch.save(torch.eye(3, 4, requires_grad=True), tmp_path / "grad.pt")
    np.savetxt(tmp_path / "plain.csv", three, delimiter=",")
    (tmp_path / "head.csv").write_text("a,b,c,d\n" + (tmp_path / "plain.csv").read_text())
    names = "p.npy p.npz data.npz data.npz:x x.pt both.pt half.pt grad.pt plain.csv head.csv data.npz:more both.pt:test"
    for name in names.split():
        wanted = three[:2] if name.endswith(("more", "test")) else three
        assert np.array_equal(load_points(tmp_path / name), wanted), name
    with pytest.raises(InputError, match="Did you mean 'more'"):
        load_points(tmp_path / "data.npz:mor")


CSV = {
    "1,2\n3,\n": "got nothing in column 2 of line 2. Write a number there",
    "a,b,label\n\n1,2,0\n3,4, cat\n": "got 'cat' in column 3 of line 4. Write a number there; for a class, 0, 1",
    "a,b\n1,2\n3,4,5\n": "got 3 cells in line 3 after 2 in the lines before. Give all lines as many.",
    "": "at least two points",
}
TENSORS = [
    ({"x": torch.eye(3).to_sparse()}, r"an array of real numbers in .*file.pt, got .*to_dense"),
    ({"x": torch.eye(3, device="meta")}, r"an array of real numbers in .*file.pt, got .*device meta"),
    (nn.Linear(2, 2), "a tensor or a dictionary of tensors"),
]


def test_files_that_hold_no_points(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "two.npz", a=np.zeros((2, 2)), b=np.zeros((2, 2)))
    (tmp_path / "text.npy").write_text("1 2 3")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "two.npz").read_bytes()[:200])
    wanted = dict.fromkeys(("text.npy", "objects.npy", "cut.npz"), "file of numbers")
    wanted["two.npz"] = r"Expected one array in .*, got 2. Choose one, as in .*two.npz:a"
    wanted |= {"nothere.npy": "does not exist", ".": r"Expected a file of points, got the folder .* numpy\.save\(\)\.$"}
    for name, sentence in wanted.items():
        with pytest.raises(InputError, match=sentence):
            load_points(tmp_path / name)
    for text, sentence in CSV.items():
        (tmp_path / "file.csv").write_text(text)
        with pytest.raises(InputError, match=re.escape(sentence)):
            load_points(tmp_path / "file.csv")
    for values, sentence in TENSORS:
        torch.save(values, tmp_path / "file.pt")
        with pytest.raises(InputError, match=sentence):
            load_points(tmp_path / "file.pt")


def test_box_covers_the_inputs() -> None:
    square = box(0.0, 2.0, (2,))
    assert isinstance(square, Box)
    assert square.embed(square.corners).tolist() == [[0, 0], [2, 0], [2, 2], [0, 2]]
    assert box(-1.0, 1.0, (1, 3)).input_shape == (1, 3)
    for lo, hi in ((1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0)):
        with pytest.raises(InputError, match="the smaller number first"):
            box(lo, hi, (2,))
    with pytest.raises(InputError, match="an input space of at most 6 dimensions for a box, got 784"):
        box(-1.0, 1.0, (1, 28, 28))


def test_the_input_shape_is_told_only_where_it_is_clear() -> None:
    assert infer_input_shape(mlp([7, 3, 1])) == (7,)
    for unclear in (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4, 2)), nn.ReLU()):
        with pytest.raises(InputError, match="--input-shape"):
            infer_input_shape(unclear)
