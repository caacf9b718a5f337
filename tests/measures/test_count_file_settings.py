"""Which settings a file of counts belongs to: another model, other inputs or options are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from measures.count_files import COARSE, DATA, Loaded, Net, assert_same
from regionscope.errors import InputError
from regionscope.measures import count_file


def changed(name: str) -> Net:
    """The network with one number of a tensor changed by a little."""
    net = Net()
    with torch.no_grad():
        {**dict(net.named_parameters()), **dict(net.named_buffers())}[name].flatten()[-1:].add_(1e-6)
    return net


class Kind(Enum):
    ONE, TWO = "one", "two"


def holding(value: Any, name: str = "held") -> Net:
    """The network with one more attribute."""
    net = Net()
    setattr(net, name, value)
    return net


def chosen(sign: Any) -> Any:
    """A function with a closure."""
    return lambda logits: logits * sign


def scaled(logits: Tensor, by: float = 1.0) -> Tensor:
    return logits * by


MOVED = DATA.clone()
MOVED[2, -1] += 1e-6  # not among the 32 that are compared where each is loaded by itself
FROM_A_FOLDER = Net()
FROM_A_FOLDER.name_or_path = "/where/hugging/face/read/it"
OWN = [rs.Segment(DATA[i], DATA[i + 1]) for i in range(3)]
OTHER = [*OWN[:2], OWN[2].extended(0.0, 1.5)]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("seed", {}, {"seed": 1}),
        ("seed", {}, {"generator": torch.Generator().manual_seed(0)}),
        ("dim", {"grid": 9}, {"grid": 9, "dim": 2}),
        ("grid", {}, {"grid": 199}),
        ("method", {"grid": 20}, {"grid": 20, "method": "refined"}),
        ("method", {}, {"method": "exact"}),
        ("max_points", COARSE, {**COARSE, "max_points": 100}),
        ("sampler", {}, {"through": "direction"}),
        ("sampler", {}, {"through": "origin"}),
        ("sampler", {}, {"slices": OWN}),
        ("alpha", {}, {"alpha": (0.0, 1.5)}),
        ("length", {"through": "direction"}, {"through": "direction", "length": 2.0}),
        ("autocast", {}, {"autocast": torch.bfloat16}),
        ("inputs", {}, {"inputs": MOVED}),
        ("inputs", {}, {"inputs": DATA.flip(0)}),
        ("inputs", {}, {"inputs": DATA[:-1]}),
        ("inputs", {"slices": OWN}, {"slices": OTHER}),
        ("inputs", {"slices": OWN}, {"slices": OWN[:2]}),
        ("model", {}, {"model": changed("first.weight")}),
        ("model", {}, {"model": changed("last.bias")}),
        ("model", {}, {"model": changed("shift")}),
        ("model", {}, {"model": Net(slope=0.2)}),
        ("model", {}, {"model": Net(scale=2.0)}),
        ("model", {}, {"model": Net(act=nn.ELU)}),
        ("model", {}, {"model": Net().double()}),
        ("model", {}, {"args": (1.0,)}),
        ("model", {"args": (torch.tensor([1.0]),)}, {"args": (torch.tensor([1.0001]),)}),
        ("model", {}, {"output": lambda logits: -logits}),
        ("model", {"output": lambda logits: logits}, {"output": lambda logits: -logits}),
        ("model", {"output": lambda logits: 2 * logits}, {"output": lambda logits: 3 * logits}),
        ("model", {"output": lambda logits: logits.sin()}, {"output": lambda logits: logits.cos()}),
        ("model", {"output": chosen(1.0)}, {"output": chosen(-1.0)}),
        ("model", {"output": chosen(torch.ones(5))}, {"output": chosen(-torch.ones(5))}),
        ("model", {"output": partial(scaled, by=1.0)}, {"output": partial(scaled, by=2.0)}),
        ("model", {"output": scaled}, {"output": scaled, "model": Net(scale=2.0)}),
        ("model", {"args": (np.float32(1),)}, {"args": (np.float32(2),)}),
        ("model", {"model": holding(1.0, "_scale")}, {"model": holding(2.0, "_scale")}),
        ("model", {"model": holding(np.float32(1))}, {"model": holding(np.float32(2))}),
        ("model", {"model": holding(np.arange(3))}, {"model": holding(np.arange(3) + 1)}),
        ("model", {"model": holding(np.array(["a", None]))}, {"model": holding(np.array(["b", None]))}),
        ("model", {"model": holding(Kind.ONE)}, {"model": holding(Kind.TWO)}),
        ("model", {"model": holding(partial(torch.add, 1))}, {"model": holding(partial(torch.add, 2))}),
        ("model", {"model": holding(torch.relu)}, {"model": holding(torch.tanh)}),
        ("model", {"model": holding({"a", "b"})}, {"model": holding({"a", "c"})}),
        ("model", {"model": holding([Net()], "_parts")}, {"model": holding([Net(scale=2.0)], "_parts")}),
    ],
)
def test_the_file_of_another_setting_is_refused(
    path: Path, name: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    usual: dict[str, Any] = {"model": Net(), "inputs": DATA, "slices": 2}
    rs.region_count(**{**usual, **before}, path=path)
    raw = path.read_bytes()
    with pytest.raises(InputError, match=rf"Expected counts for .*\b{name}=.* got counts for .*\b{name}=.* Repeat"):
        rs.region_count(**{**usual, **after}, path=path)
    assert path.read_bytes() == raw
    rs.region_count(**{**usual, **before}, path=path)


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("pieces", {"pieces": "activation"}),
        ("seed", {"seed": 1}),
        ("dim", {"dim": 2}),
        ("sampler", {"through": "origin"}),
        ("alpha", {"alpha": (0.0, 1.5)}),
        ("inputs", {"inputs": MOVED}),
        ("inputs", {"inputs": DATA[:-1]}),
        ("model", {"model": changed("first.weight")}),
        ("model", {"model": Net(slope=0.2)}),
        ("model", {"args": (1.0,)}),
    ],
)
def test_a_file_of_other_linear_counts_is_refused(path: Path, name: str, after: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"model": Net(), "inputs": DATA, "slices": 2, "path": path}
    rs.linear_region_count(**usual)
    raw = path.read_bytes()
    with pytest.raises(InputError, match=rf"Expected counts for .*\b{name}=.* got counts for .*\b{name}=.* Repeat"):
        rs.linear_region_count(**{**usual, **after})
    assert path.read_bytes() == raw


def test_linear_counts_and_decision_counts_do_not_share_a_file(path: Path, tmp_path: Path) -> None:
    rs.region_count(Net(), DATA, slices=2, method="exact", path=path)
    with pytest.raises(InputError, match=r"Expected counts for pieces='linear' in .*, got counts for pieces=None"):
        rs.linear_region_count(Net(), DATA, slices=2, path=path)
    other = tmp_path / "other.jsonl"
    rs.linear_region_count(Net(), DATA, slices=2, path=other)
    with pytest.raises(InputError, match=r"Expected counts for pieces=None in .*, got counts for pieces='linear'"):
        rs.region_count(Net(), DATA, slices=2, method="exact", path=other)


def test_the_file_of_another_device_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rs.region_count(Net(), DATA, slices=2, path=path)
    monkeypatch.setattr(count_file, "device_and_dtype", lambda module: (torch.device("cuda"), torch.float32))
    with pytest.raises(InputError, match=r"Expected counts for device='cuda' in .*, got counts for device='cpu'"):
        rs.region_count(Net(), DATA, slices=2, path=path)


@pytest.mark.parametrize(
    "free",
    [
        {"batch_size": 7},
        {"memory": 1 << 20},
        {"max_slices": 90},
        {"model": Net().train()},
        {"model": nn.DataParallel(Net())},
        {"model": FROM_A_FOLDER},
        {"inputs": DATA.clone(), "max_points": 5},
    ],
)
def test_what_no_count_depends_on_may_differ(path: Path, free: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"model": Net().eval(), "inputs": DATA, "slices": 40, "path": path}
    rs.region_count(**{**usual, "slices": 20})
    assert_same(rs.region_count(**{**usual, **free}), rs.region_count(Net(), DATA, slices=40))


def test_attributes_of_every_kind_are_accepted_again(path: Path) -> None:
    def make() -> Net:
        net = holding([1, {"a": 2.0, "b": {Kind.ONE, Kind.TWO}}, np.arange(3), np.float32(1), b"x", range(3)], "_held")
        vars(net).update(
            _itself=[net], method=net.forward, function=chosen(Net()), other=object(), _hidden=partial(scaled)
        )
        loop: list[Any] = [1]
        loop.append(loop)
        net.loop = loop
        return net

    rs.region_count(make(), DATA, slices=20, output=chosen(1.0), path=path)
    found = rs.region_count(make(), DATA, slices=40, output=chosen(1.0), path=path)
    assert_same(found, rs.region_count(Net(), DATA, slices=40))


CHECKSUM = """
import functools, torch
from regionscope.measures.checksum import checksum
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LSTM(2, 2))
for weights in net.parameters():
    weights.data.fill_(0.5)
net._held = set("abcdefghijklmnopqrstuvwxyz"), functools.partial(torch.add, 1), lambda x: x in {"e", "f", "g"}, object()
found = checksum(net)
"""


def test_the_checksum_is_that_of_another_process() -> None:
    """Which has another order of the sets."""
    here: dict[str, Any] = {"__name__": "__main__"}
    exec(CHECKSUM, here)
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(rs.__file__).parents[1])}
    words = [sys.executable, "-c", CHECKSUM + "print(found)"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == str(here["found"])


def test_inputs_that_are_loaded_at_random_are_refused(path: Path) -> None:
    class Noisy(Loaded):
        def __getitem__(self, i: int) -> Tensor:
            self.loads += 1
            return DATA[i] + self.loads

    rs.region_count(Net(), Loaded(), slices=3, path=path)
    rs.region_count(Net(), Loaded(), slices=3, path=path)
    path.unlink()
    noisy = Noisy()
    rs.region_count(Net(), noisy, slices=3, path=path)
    with pytest.raises(InputError, match="Expected counts for inputs="):
        rs.region_count(Net(), noisy, slices=3, path=path)
