"""Slices shared among Dask workers: two real ones on loopback, of which one is killed while it works."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import regionscope as rs
from dask_cluster import two_workers
from regionscope import cluster
from regionscope.cli import app
from regionscope_lab.zoo import mlp

NET = """
import torch
from regionscope_lab.zoo import mlp

class Own(torch.nn.Sequential):
    pass

def build():
    network = Own(*mlp([2, 16, 16, 5], seed=1))
    with torch.no_grad():
        for weights in network.parameters():
            weights.mul_(4)
    return network
"""
X = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))


def build() -> nn.Module:
    """A network with several decision regions on most slices."""
    names: dict[str, Any] = {}
    exec(NET, names)
    network: nn.Module = names["build"]()
    return network


class Watched(nn.Module):
    """A network of this file, which no worker can import; reading it is slow and leaves the number of the process."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.inner, self.folder = build(), folder

    def forward(self, x: Tensor) -> Tensor:
        (self.folder / str(os.getpid())).touch()
        time.sleep(0.1)
        found: Tensor = self.inner(x)
        return found


def wait_for(path: Path, pattern: str) -> Path:
    end = time.monotonic() + 120
    while not (found := list(path.glob(pattern))):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
    return found[0]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler with two workers."""
    pytest.importorskip("distributed")
    with two_workers(tmp_path_factory.mktemp("dask"), "regionscope.public") as found:
        yield found


@pytest.mark.slow
def test_partitions_from_workers_are_those_of_one_process(address: str) -> None:
    model = build()
    slices = [rs.Segment(a, b) for a, b in X.reshape(10, 2, 2)]
    seen: list[float] = []
    shared = rs.linear_regions(model, slices, dask=address, progress=seen.append)
    for one, other in zip(rs.linear_regions(model, slices), shared, strict=True):
        assert torch.equal(one.vertices, other.vertices)
        assert (one.by_layer, one.n_linear_regions) == (other.by_layer, other.n_linear_regions)
        other.check()
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    decided = rs.decision_regions(model, slices, dask=address)
    for here, there in zip(rs.decision_regions(model, slices), decided, strict=True):
        assert torch.equal(here.piece_labels, there.piece_labels)
        assert here.count == there.count
    with pytest.raises(rs.LimitReached, match="max_regions=1"):
        rs.linear_regions(model, slices, dask=address, max_regions=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "options"),
    [
        (rs.region_count, {"method": "exact"}),
        (rs.region_count, {"dim": 2, "grid": 9, "method": "grid"}),
        (rs.region_count, {"dim": 2, "grid": 9, "method": "refined", "max_points": 300}),
        (rs.measures.linear_region_count, {}),
    ],
)
def test_counts_from_workers_are_those_of_one_process(address: str, count: Any, options: dict[str, Any]) -> None:
    model = build()
    alone = count(model, X, slices=9, **options)
    shared = count(model, X, slices=9, dask=address, **options)
    assert len(alone.counts.unique()) > 1
    assert torch.equal(alone.counts, shared.counts)
    assert (alone.interval, alone.status, alone.grid) == (shared.interval, shared.status, shared.grid)
    if alone.plain_counts is not None:
        assert not alone.status
        assert torch.equal(alone.plain_counts, shared.plain_counts)


@pytest.mark.slow
def test_the_command_shares_its_slices(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    np.save("data.npy", X.numpy())
    command = ["count", "--model", "net.py:build", "--data", "data.npy", "--slices", "12", "--method", "exact"]
    for options in (["-o", "alone.json"], ["-o", "shared.json", "--dask", address]):
        done = CliRunner().invoke(app, [*command, *options])
        assert done.exit_code == 0, done.output
    alone, shared = (json.loads(Path(name).read_text()) for name in ("alone.json", "shared.json"))
    assert {**shared, "seconds": 0, "provenance": 0} == {**alone, "seconds": 0, "provenance": 0}


@pytest.mark.kill
def test_a_worker_may_die(address: str, tmp_path: Path) -> None:
    """The last test with these workers: one of them is killed in the middle of its first shard."""
    model = Watched(tmp_path)
    killed: list[int] = []

    def kill() -> None:
        killed.append(int(wait_for(tmp_path, "[0-9]*").name))
        os.kill(killed[0], signal.SIGKILL)

    killer = Thread(target=kill)
    killer.start()
    shared = rs.region_count(model, X, slices=40, method="exact", dask=address)
    killer.join()
    assert killed[0] != os.getpid()
    assert {path.name for path in tmp_path.iterdir()} > {str(killed[0])}
    alone = rs.region_count(model.inner, X, slices=40, method="exact")
    assert len(alone.counts.unique()) > 1
    assert torch.equal(alone.counts, shared.counts)


def test_what_cannot_be_shared_is_refused() -> None:
    pytest.importorskip("distributed")
    model, slice = mlp([2, 8, 3], seed=1), rs.Segment([0.0, 0.0], [1.0, 1.0])
    with pytest.raises(rs.InputError, match="Expected a list of slices with dask, got one Segment"):
        rs.linear_regions(model, slice, dask="local:1")
    with pytest.raises(rs.InputError, match='Expected on_limit="raise" with dask'):
        rs.linear_regions(model, [slice], on_limit="return", dask="local:1")
    with pytest.raises(rs.InputError, match="Expected a torch module for dask, got Program"):
        rs.linear_regions(rs.trace(model, (2,)), [slice], dask="local:1")
    with pytest.raises(rs.InputError, match="Expected dask= such as tcp://host:8786 or local:4, got 'here'"):
        rs.region_count(model, X, dask="here")
    model.lock = Lock()
    with pytest.raises(rs.InputError, match="can be sent to other processes"):
        cluster._packed(model)
