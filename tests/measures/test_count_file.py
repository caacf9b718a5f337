"""A count in a file: it resumes after kill -9, counts no slice twice, and refuses the file of another setting."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import forked
import regionscope as rs
from regionscope.errors import Damaged, DiskFull, InputError
from regionscope.measures.count_file import CountFile
from regionscope.sampled.grid import RefinedCounts

DATA = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)) * 3


COARSE = {"grid": 4, "method": "refined", "max_points": 10}  # one halving: some slices do not settle


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file for counts that is not there yet."""
    return tmp_path / "counts.jsonl"


class Net(nn.Module):
    """Several regions on most slices."""

    def __init__(self, slope: float = 0.1, scale: float = 1.0, act: type[nn.Module] = nn.LeakyReLU) -> None:
        super().__init__()
        made = torch.Generator().manual_seed(3)
        self.first, self.act, self.last = nn.Linear(4, 24), act(slope), nn.Linear(24, 5)
        self.scale = scale
        self.register_buffer("shift", torch.zeros(5), persistent=False)
        with torch.no_grad():
            for weights in self.parameters():
                weights.copy_(torch.randn(weights.shape, generator=made))

    def forward(self, x: Tensor, add: float | Tensor = 0.0) -> Tensor:
        out: Tensor = self.last(self.act(self.first(x))) * self.scale + self.shift + add
        return out


def assert_same(found: rs.RegionCount, wanted: rs.RegionCount) -> None:
    assert torch.equal(found.counts, wanted.counts)
    assert (found.plain_counts is None) == (wanted.plain_counts is None)
    if wanted.plain_counts is not None:
        assert torch.equal(found.plain_counts, wanted.plain_counts)
    for name in ("dim", "method", "grid", "seed", "status", "interval"):
        assert getattr(found, name) == getattr(wanted, name)


def holding(value: Any, name: str = "held") -> Net:
    """The network with one more attribute."""
    net = Net()
    setattr(net, name, value)
    return net


COUNTS: list[tuple[Callable[..., rs.RegionCount], dict[str, Any]]] = [
    (rs.region_count, {"method": "grid"}),
    (rs.region_count, COARSE),
    (rs.region_count, {"method": "exact"}),
    (rs.measures.linear_region_count, {}),
    (rs.measures.linear_region_count, {"pieces": "activation"}),
]


@pytest.mark.parametrize(("count", "options"), COUNTS)
def test_a_resumed_count_is_that_of_one_call(
    path: Path, count: Callable[..., rs.RegionCount], options: dict[str, Any]
) -> None:
    wanted = {n: count(Net(), DATA, slices=n, **options) for n in (20, 50)}
    assert len(wanted[50].counts.unique()) > 2
    if options is COARSE:  # how many did not settle is told for the slices that were asked for
        assert wanted[20].status.reason != wanted[50].status.reason
    for n in (20, 50, 50, 20):  # begun, extended, read, and more in the file than asked for
        assert_same(count(Net(), DATA, slices=n, path=path, **options), wanted[n])


@pytest.mark.parametrize("begun", [1, 20, 33, 70])
def test_a_precision_is_reached_after_the_same_slices(path: Path, begun: int) -> None:
    wanted = rs.region_count(Net(), DATA, slices=20, grid=40, until=0.06)
    assert 30 < wanted.n < 1000
    rs.region_count(Net(), DATA, slices=begun, grid=40, path=path)
    assert_same(rs.region_count(Net(), DATA, slices=20, grid=40, until=0.06, path=str(path)), wanted)


def kill_at_write(fatal: int, share: float, count: Callable[[], object]) -> None:
    """Count, and be killed by signal 9 when that share of write number ``fatal`` is written."""
    real, calls = os.write, []

    def write(file: int, data: bytes) -> int:
        calls.append(file)
        if len(calls) < fatal:
            return real(file, data)
        real(file, data[: int(share * len(data))])
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nothing runs after signal 9")

    os.write = write
    count()


@pytest.mark.kill
@pytest.mark.parametrize(
    ("counted", "write", "share", "whole"),
    [(COUNTS[1], 1, 0.2, 0), (COUNTS[1], 3, 0.5, 32), (COUNTS[1], 4, 1.0, 64), (COUNTS[3], 3, 0.5, 32)],
)
def test_kill_minus_nine_while_a_line_is_written(
    path: Path, counted: Any, write: int, share: float, whole: int
) -> None:
    count = partial(counted[0], Net(), DATA, slices=70, **counted[1])
    child = forked.start(lambda: kill_at_write(write, share, partial(count, path=path)))
    assert forked.end(child) == -signal.SIGKILL
    raw = path.read_bytes()
    assert raw.endswith(b"\n") == (share == 1.0)
    wanted = count()
    shares: list[float] = []
    assert_same(count(path=path, progress=shares.append), wanted)
    assert shares[0] == max(whole, 16) / 70
    assert path.read_bytes().startswith(raw[: raw.rfind(b"\n") + 1])
    assert_same(count(path=path), wanted)


def test_a_file_cut_at_any_byte_is_continued(path: Path) -> None:
    setting = {"seed": 0, "method": "refined"}
    ones = torch.arange(1, 8)
    result = RefinedCounts(ones, ones + 1, ones * 10, ones > 3)
    parts = [RefinedCounts(*(each[part] for each in vars(result).values())) for part in (slice(0, 3), slice(3, 7))]
    file = CountFile(path, setting)
    for part in parts:
        file.append(part)
    raw = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(raw) if byte == ord("\n")]
    assert len(ends) == 3
    for cut in range(len(raw) + 1):
        path.write_bytes(raw[:cut])
        again = CountFile(path, setting)
        lines = sum(end <= cut for end in ends[1:])
        assert again.finished.counts.tolist() == result.counts[: (0, 3, 7)[lines]].tolist()
        for part in parts[lines:]:
            again.append(part)
        assert path.read_bytes() == raw
        back = CountFile(path, setting).finished
        assert all(torch.equal(x, y) for x, y in zip(vars(back).values(), vars(result).values(), strict=True))


def test_lines_of_two_processes_are_read_once(path: Path) -> None:
    one, other = (CountFile(path, {"method": "grid"}) for _ in range(2))
    one.append(torch.tensor([1, 2, 3]))
    other._begun = True  # it saw the setting that the first one wrote
    other.append(torch.tensor([1, 2, 3, 4]))
    one.append(torch.tensor([4, 5]))
    assert CountFile(path, {"method": "grid"}).finished.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("content", [b"\x00\x01\x02", b'{"mean": 3.5}', b'{"region_count": 3}\n', b"{" * 99999])
def test_a_file_of_another_kind_stays_as_it_is(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(
        InputError, match=r"Expected a file that region_count or linear_region_count wrote, got .* Choose another name"
    ):
        rs.region_count(Net(), DATA, slices=2, path=path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "line",
    [
        b"", b"12", b"{}", b'{"first": 16, "counts": [1, 2', b'{"first": 17, "counts": [1]}',
        b'{"first": -1, "counts": [1]}', b'{"first": 1.0, "counts": [1]}', b'{"first": true, "counts": [1]}',
        b'{"first": 16, "counts": [1.5]}', b'{"first": 16, "counts": [[1]]}', b'{"first": 16, "counts": 1}',
        b'{"first": 16, "counts": ["1"]}', b'{"first": 16, "counts": [99999999999999999999]}', b"\x00" * 20,
    ],
)  # fmt: skip
def test_a_damaged_line_is_named(path: Path, line: bytes) -> None:
    rs.region_count(Net(), DATA, slices=40, path=path)
    lines = path.read_bytes().split(b"\n")
    lines[2] = line
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(Damaged, match="Expected the counts of further slices in line 3 of"):
        rs.region_count(Net(), DATA, slices=40, path=path)
    path.write_bytes(b"\n".join(lines[:2]) + b"\n")  # as the message advises
    assert_same(rs.region_count(Net(), DATA, slices=40, path=path), rs.region_count(Net(), DATA, slices=40))


def test_a_full_disk_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []

    def fsync(file: int) -> None:
        flushed.append(file)
        if len(flushed) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fsync)  # of the first line, of its folder, of the second line, of the third
        with pytest.raises(DiskFull, match="The disk is full"):
            rs.region_count(Net(), DATA, slices=70, path=path)
    shares: list[float] = []
    found = rs.region_count(Net(), DATA, slices=70, path=path, progress=shares.append)
    assert shares[0] == 32 / 70
    assert_same(found, rs.region_count(Net(), DATA, slices=70))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (partial(rs.region_count, lambda x: (x[:, 0] > 0).long()), r"a torch module for path, .* got function"),
        (partial(rs.region_count, rs.trace(Net(), (4,)), method="exact"), r"a torch module for path, .* got Program"),
        (partial(rs.measures.linear_region_count, rs.trace(Net(), (4,))), r"a torch module for path, .* got Program"),
        (partial(rs.region_count, Net(), path="."), "Expected a file for the counts, got"),
        (partial(rs.region_count, Net(), path="no/x.jsonl"), r"Expected an existing folder for 'x.jsonl'"),
        (partial(rs.region_count, Net(), path=3), "Expected a path, got int"),
        (
            partial(rs.region_count, holding(nn.Buffer(torch.eye(2).to_sparse()), "matrix")),
            "dense tensors with values",
        ),
    ],
)
def test_what_cannot_be_stored_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Any, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=words):
        call(**{"inputs": DATA, "slices": 2, "path": "counts.jsonl", **call.keywords})
    assert list(tmp_path.iterdir()) == []


def changed(name: str) -> Net:
    """The network with one number of a tensor changed by a little."""
    net = Net()
    with torch.no_grad():
        {**dict(net.named_parameters()), **dict(net.named_buffers())}[name].flatten()[-1:].add_(1e-6)
    return net


class Kind(Enum):
    ONE, TWO = "one", "two"


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
        ("method", {"grid": 20}, {"grid": 20, "method": "refined"}),
        ("method", {}, {"method": "exact"}),
        ("max_points", COARSE, {**COARSE, "max_points": 100}),
        ("sampler", {}, {"through": "direction"}),
        ("sampler", {}, {"slices": OWN}),
        ("length", {"through": "direction"}, {"through": "direction", "length": 2.0}),
        ("autocast", {}, {"autocast": torch.bfloat16}),
        ("inputs", {}, {"inputs": MOVED}),
        ("inputs", {"slices": OWN}, {"slices": OTHER}),
        ("model", {}, {"model": changed("first.weight")}),
        ("model", {}, {"model": Net(slope=0.2)}),
        ("model", {}, {"model": Net(act=nn.ELU)}),
        ("model", {"args": (torch.tensor([1.0]),)}, {"args": (torch.tensor([1.0001]),)}),
        ("model", {"output": lambda logits: logits}, {"output": lambda logits: -logits}),
        ("model", {"model": holding(1.0, "_scale")}, {"model": holding(2.0, "_scale")}),
        ("model", {"model": holding(np.array(["a", None]))}, {"model": holding(np.array(["b", None]))}),
        ("model", {"model": holding(Kind.ONE)}, {"model": holding(Kind.TWO)}),
        ("model", {"model": holding(partial(torch.add, 1))}, {"model": holding(partial(torch.add, 2))}),
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
from regionscope.measures.count_file import checksum
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
