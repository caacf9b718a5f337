"""A folder with networks and points, in which every test of the commands works."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

NET = """
import torch
from torch import nn
from regionscope_lab.zoo import mlp

def build():
    return mlp([2, 8, 8, 2], seed=1)

def three():
    return mlp([2, 8, 8, 3], seed=4)

def costs():
    return mlp([2, 12, 12, 5], seed=4)

def bent():
    net = mlp([2, 8, 8, 3], seed=4)
    net.relu1, net.relu2 = nn.GELU(), nn.GELU()
    return net

def single():
    return mlp([2, 8, 1], seed=1)

def line():
    return mlp([1, 8, 1])

def cube():
    return mlp([3, 2, 2])

def wide():
    return mlp([4, 1, 2])

def four():
    return mlp([4, 12, 3], seed=1)

def six():
    return mlp([6, 12, 12, 2])

def broad():
    return mlp([6, 100, 2])

def cnn():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))

def silu():
    return nn.Sequential(nn.Conv2d(1, 2, 2), nn.SiLU(), nn.Flatten(), nn.Linear(2, 3))

def gelu():
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.GELU(), nn.Linear(4, 2))

def smooth():
    return nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 2))

def sparse():
    model = build()
    model[0].weight = nn.Parameter(model[0].weight.detach().to_sparse())
    return model

class Silent(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = build()

    def forward(self, x):
        return self.net(x)[:, :0]

class Untraceable(nn.Module):
    def forward(self, x):
        return x * x.tolist()[0][0]

class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = three()

    def forward(self, x):
        return {"hidden": x, "logits": self.inner(x)}

class Pair(Several):
    def forward(self, x):
        return x, self.inner(x)

class Diamond(nn.Module):
    def forward(self, x):
        return x.abs().sum(1, keepdim=True) - 1

class Two(nn.Module):
    def forward(self, x):
        return torch.stack([x[:, 0], x[:, 1], x[:, 2] - 9], 1)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Networks in net.py; arrays named after the number of inputs, or what they are."""
    (tmp_path / "net.py").write_text(NET)
    rng = np.random.default_rng(0)
    arrays = {
        "triangle": rng.normal(size=(3, 2)),
        "segment": np.array([[-4.0, -3.0], [4.0, 2.0]]),
        "twice": np.ones((2, 2)),
        "x2": rng.normal(size=(30, 2)),
        "x4": rng.normal(size=(30, 4)) * 3,
        "x6": rng.normal(size=(30, 6)).astype(np.float32),
        "test6": rng.normal(size=(20, 6)).astype(np.float32),
        "x16": rng.normal(size=(2, 16)),
        "images": rng.normal(size=(30, 1, 2, 2)) * 3,
        "one4": np.eye(4)[:1],
        "two4": np.eye(4)[:2],
        "one6": rng.normal(size=(1, 6)).astype(np.float32),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERMINAL_WIDTH", "120")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("REGIONSCOPE_DATA", raising=False)
    return tmp_path
