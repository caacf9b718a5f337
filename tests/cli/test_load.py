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


@pytest.mark.parametrize("spec", ["net.py:build", "net:build", "net.py:ready", "net.py:zoo.small"])
def test_a_model_is_found(folder: Path, spec: str) -> None:
    path = list(sys.path)
    model = load_model(spec)
    assert isinstance(model, nn.Sequential)
    assert sys.path == path


def test_a_file_may_lie_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert isinstance(load_model(f"{folder / 'net.py'}:build"), nn.Module)


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


@pytest.mark.parametrize("name", ["w.safetensors", "w.pt"])
def test_weights_come_back(tmp_path: Path, name: str) -> None:
    source, target = mlp([2, 3, 2], seed=1), mlp([2, 3, 2], seed=2)
    if name.endswith(".pt"):
        torch.save(source.state_dict(), tmp_path / name)
    else:
        safetensors.torch.save_file(source.state_dict(), tmp_path / name)
    load_weights(target, tmp_path / name)
    assert all(torch.equal(a, b) for a, b in zip(source.parameters(), target.parameters(), strict=True))


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
    ],
)
def test_weights_that_do_not_fit(tmp_path: Path, saved: object, sentence: str) -> None:
    torch.save(saved, tmp_path / "w.pt")
    with pytest.raises(InputError, match=sentence):
        load_weights(nn.Linear(2, 1), tmp_path / "w.pt")


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "model.net."])
@pytest.mark.parametrize("whole", [False, True])
def test_weights_in_a_checkpoint_and_with_a_prefix(tmp_path: Path, prefix: str, whole: bool) -> None:
    source, target = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    state = {prefix + name: tensor for name, tensor in source.state_dict().items()}
    checkpoint = {"epoch": 3, "state_dict": state, "optimizer": torch.optim.Adam(source.parameters()).state_dict()}
    torch.save(checkpoint if whole else state, tmp_path / "w.ckpt")
    load_weights(target, tmp_path / "w.ckpt")
    assert all(torch.equal(tensor, target.state_dict()[name]) for name, tensor in source.state_dict().items())


def test_weights_without_names_are_refused(tmp_path: Path) -> None:
    torch.save(dict(enumerate(nn.Linear(2, 1).parameters())), tmp_path / "w.pt")
    with pytest.raises(InputError, match="Expected one state dict"):
        load_weights(nn.Linear(2, 1), tmp_path / "w.pt")


def test_weights_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"hello")
    with pytest.raises(InputError, match="Expected a safetensors file"):
        load_weights(nn.Linear(2, 1), tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="does not exist"):
        load_weights(nn.Linear(2, 1), tmp_path / "nothere.pt")


def test_a_folder_of_images_is_no_file_of_points(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Expected a file of points, got the folder .* numpy\.save\(\)\.$"):
        load_points(tmp_path)


def test_points_and_hulls(tmp_path: Path) -> None:
    three = np.eye(3, 4)
    np.save(tmp_path / "p.npy", three)
    np.savez(tmp_path / "p.npz", three)
    for name in ("p.npy", "p.npz"):
        assert np.array_equal(load_points(tmp_path / name), three)
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


def test_files_that_hold_no_points(tmp_path: Path) -> None:
    (tmp_path / "text.npy").write_text("1 2 3")
    (tmp_path / "empty.npy").write_text("")
    np.save(tmp_path / "objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "two.npz", a=np.zeros((2, 2)), b=np.zeros((2, 2)))
    for name in ("text.npy", "empty.npy", "objects.npy"):
        with pytest.raises(InputError, match="file of numbers"):
            load_points(tmp_path / name)
    with pytest.raises(InputError, match=r"Expected one array in .*, got 2. Choose one, as in .*two.npz:a"):
        load_points(tmp_path / "two.npz")
    with pytest.raises(InputError, match="does not exist"):
        load_points(tmp_path / "nothere.npy")


def test_points_of_other_files(tmp_path: Path) -> None:
    three = np.eye(3, 4)
    np.savez(tmp_path / "data.npz", x=three, y=np.arange(3), more=three[:2])
    torch.save(torch.from_numpy(three), tmp_path / "x.pt")
    torch.save({"x": torch.from_numpy(three), "test": torch.from_numpy(three[:2])}, tmp_path / "both.pt")
    np.savetxt(tmp_path / "plain.csv", three, delimiter=",")
    (tmp_path / "head.csv").write_text("a,b,c,d\n" + (tmp_path / "plain.csv").read_text())
    for name in ("data.npz", "data.npz:x", "x.pt", "both.pt", "plain.csv", "head.csv"):
        assert np.array_equal(load_points(tmp_path / name), three), name
    for name in ("data.npz:more", "both.pt:test"):
        assert np.array_equal(load_points(tmp_path / name), three[:2]), name
    with pytest.raises(InputError, match="Did you mean 'more'"):
        load_points(tmp_path / "data.npz:mor")
    for text, found in {
        "1,2\n3,\n": "got nothing in column 2 of line 2. Write a number there",
        "a,b,label\n\n1,2,0\n3,4, cat\n": "got 'cat' in column 3 of line 4. Write a number there; for a class, 0, 1",
        "a,b\n1,2\n3,4,5\n": "got 3 cells in line 3 after 2 in the lines before. Give all lines as many.",
    }.items():
        (tmp_path / "hole.csv").write_text(text)
        with pytest.raises(InputError, match=re.escape(found)):
            load_points(tmp_path / "hole.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(InputError, match="at least two points"):
        load_points(tmp_path / "empty.csv")
    for values in (torch.eye(3, 4, dtype=torch.bfloat16), torch.eye(3, 4, requires_grad=True)):
        torch.save(values, tmp_path / "kind.pt")
        assert np.array_equal(load_points(tmp_path / "kind.pt"), three)
    for bad, reason in ((torch.eye(3).to_sparse(), "to_dense"), (torch.eye(3, device="meta"), "device meta")):
        torch.save({"x": bad}, tmp_path / "kind.pt")
        with pytest.raises(InputError, match=f"an array of real numbers in .*kind.pt, got .*{reason}"):
            load_points(tmp_path / "kind.pt")
    torch.save(nn.Linear(2, 2), tmp_path / "module.pt")
    with pytest.raises(InputError, match="a tensor or a dictionary of tensors"):
        load_points(tmp_path / "module.pt")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "data.npz").read_bytes()[:200])
    with pytest.raises(InputError, match="file of numbers"):
        load_points(tmp_path / "cut.npz")


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
