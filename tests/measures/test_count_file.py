"""A count in a file: it resumes after kill -9, counts no slice twice, and refuses the file of another setting."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import forked
import regionscope as rs
from measures.count_files import COARSE, DATA, HOW, Loaded, Net, assert_same
from regionscope.errors import Damaged, DiskFull, InputError
from regionscope.measures.count_file import CountFile
from regionscope.sampled.grid import RefinedCounts

METHODS = [{"method": "grid"}, COARSE, {"method": "exact"}]


@pytest.mark.parametrize("method", METHODS, ids=lambda each: each["method"])
def test_a_resumed_count_is_that_of_one_call(path: Path, method: dict[str, Any]) -> None:
    wanted = {n: rs.region_count(Net(), DATA, slices=n, **method) for n in (20, 50)}
    assert len(wanted[50].counts.unique()) > 2
    if method is COARSE:  # how many did not settle is told for the slices that were asked for
        assert wanted[20].status.reason != wanted[50].status.reason
    for n in (20, 50, 50, 20):  # begun, extended, read, and more in the file than asked for
        assert_same(rs.region_count(Net(), DATA, slices=n, path=path, **method), wanted[n])


@pytest.mark.parametrize("pieces", ["linear", "activation"])
def test_a_resumed_count_of_linear_regions_is_that_of_one_call(path: Path, pieces: Any) -> None:
    wanted = {n: rs.linear_region_count(Net(), DATA, slices=n, pieces=pieces) for n in (20, 50)}
    assert len(wanted[50].counts.unique()) > 2
    for n in (20, 50, 50, 20):
        assert_same(rs.linear_region_count(Net(), DATA, slices=n, pieces=pieces, path=path), wanted[n])
    precise = rs.linear_region_count(Net(), DATA, slices=20, pieces=pieces, until=0.03)
    assert 50 < precise.n < 1000
    assert_same(rs.linear_region_count(Net(), DATA, slices=20, pieces=pieces, until=0.03, path=path), precise)


def test_finished_slices_have_their_linear_regions_counted_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting, seen = sys.modules["regionscope.measures.slice_counter"], []

    def recorded(model: Any, block: Any, **options: Any) -> Any:
        seen.append(len(block))
        return rs.linear_regions(model, block, **options)

    monkeypatch.setattr(counting, "linear_regions", recorded)
    for n, new in ((20, [16, 4]), (50, [16, 14]), (50, [])):
        seen.clear()
        rs.linear_region_count(Net(), DATA, slices=n, path=path)
        assert seen == new
    seen.clear()
    rs.linear_region_count(Net(), DATA, slices=50)
    assert seen == [50]


@pytest.mark.parametrize("begun", [1, 20, 33, 70])
def test_a_precision_is_reached_after_the_same_slices(path: Path, begun: int) -> None:
    wanted = rs.region_count(Net(), DATA, slices=20, grid=40, until=0.06)
    assert 30 < wanted.n < 1000
    rs.region_count(Net(), DATA, slices=begun, grid=40, path=path)
    assert_same(rs.region_count(Net(), DATA, slices=20, grid=40, until=0.06, path=str(path)), wanted)


def test_finished_slices_are_neither_counted_nor_drawn_again(path: Path) -> None:
    data = Loaded()

    def work(slices: int, file: Path | None = path) -> tuple[int, int]:
        Net.rows.clear()
        data.loads = 0
        rs.region_count(Net(), data, slices=slices, path=file)
        return sum(Net.rows), data.loads

    work(20)
    opening_rows, opening_loads = work(20)
    rows, loads = work(50)
    assert rows - opening_rows == 30 * 200
    assert loads - opening_loads == 30 * 2
    assert work(50) == (opening_rows, opening_loads)
    assert opening_rows < 20
    assert opening_loads <= 32 + 3


def test_progress_starts_at_the_finished_share(path: Path) -> None:
    shares: list[float] = []
    rs.region_count(Net(), DATA, slices=20, path=path)
    rs.region_count(Net(), DATA, slices=80, path=path, progress=shares.append)
    assert shares == [0.25, 0.45, 0.65, 0.85, 1.0]


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
@pytest.mark.parametrize("name", HOW)
@pytest.mark.parametrize(("write", "share", "whole"), [(1, 0.2, 0), (3, 0.5, 32), (4, 1.0, 64)])
def test_kill_minus_nine_while_a_line_is_written(path: Path, write: int, share: float, whole: int, name: str) -> None:
    count = partial(getattr(rs, name), Net(), DATA, slices=70, **HOW[name])
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


def test_slices_of_your_own_are_resumed(path: Path) -> None:
    file = [rs.Segment(DATA[i], DATA[i + 1]) for i in range(40)]
    rs.region_count(Net(), slices=file, path=path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    assert_same(rs.region_count(Net(), slices=file, path=path), rs.region_count(Net(), slices=file))
    assert path.read_bytes().splitlines(keepends=True) == lines


@pytest.mark.parametrize(
    "content", [b"\x00\x01\x02", b"a,b\n1,2\n3", b"[1, 2]\n", b'{"mean": 3.5}', b'{"region_count": 3}\n', b"{" * 99999]
)
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


def test_columns_of_different_lengths_are_damage(path: Path) -> None:
    ones = torch.ones(2).long()
    CountFile(path, {"method": "refined"}).append(RefinedCounts(ones, ones, ones, ones > 0))
    for old, new in ((b'"plain": [1, 1]', b'"plain": [1]'), (b"[true, true]", b"[1, 1]"), (b'"grid"', b'"other"')):
        raw = path.read_bytes()
        assert old in raw
        path.write_bytes(raw.replace(old, new))
        with pytest.raises(Damaged, match="line 2"):
            CountFile(path, {"method": "refined"})
        path.write_bytes(raw)


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


def test_what_cannot_be_stored_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Expected a torch module for path, .* got function"):
        rs.region_count(lambda x: (x[:, 0] > 0).long(), DATA, slices=2, path=path)
    with pytest.raises(InputError, match=r"Expected a torch module for path, .* got Program"):
        rs.region_count(rs.trace(Net(), (4,)), DATA, slices=2, method="exact", path=path)
    with pytest.raises(InputError, match=r"Expected a torch module for path, .* got Program"):
        rs.linear_region_count(rs.trace(Net(), (4,)), DATA, slices=2, path=path)
    with pytest.raises(InputError, match="Expected a file for the counts, got"):
        rs.region_count(Net(), DATA, slices=2, path=tmp_path)
    with pytest.raises(InputError, match=r"Expected an existing folder for 'x.jsonl'"):
        rs.region_count(Net(), DATA, slices=2, path=tmp_path / "no" / "x.jsonl")
    with pytest.raises(InputError, match="Expected a path, got int"):
        rs.region_count(Net(), DATA, slices=2, path=3)
    sparse = Net()
    sparse.register_buffer("matrix", torch.eye(2).to_sparse())
    with pytest.raises(InputError, match="Expected dense tensors with values for path"):
        rs.region_count(sparse, DATA, slices=2, path=path)
    assert list(tmp_path.iterdir()) == []


def test_workers_of_a_cluster_and_one_process_share_a_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: an opener of shards that calls the function for each half of the slices."""

    class TwoShards:
        threads = 2

        def __init__(self, function: Any, join: Any) -> None:
            self.function, self.join = function, join

        def __call__(self, block: list[rs.Slice]) -> Any:
            return self.join([self.function(block[:1]), self.function(block[1:])])

    @contextmanager
    def two_shards(function: Any, join: Any, _model: object, _address: str) -> Iterator[Any]:
        yield TwoShards(function, join)

    monkeypatch.setattr(sys.modules["regionscope.measures.slice_counter"], "open_shards", two_shards)
    rs.region_count(Net(), DATA, slices=40, path=path, dask="two", **COARSE)
    assert path.read_bytes().count(b"\n") == 1 + 2
    wanted = rs.region_count(Net(), DATA, slices=70, **COARSE)
    assert_same(
        rs.region_count(Net(), DATA, slices=55, path=path, **COARSE), rs.region_count(Net(), DATA, slices=55, **COARSE)
    )
    assert_same(rs.region_count(Net(), DATA, slices=70, path=path, dask="two", **COARSE), wanted)
    linear = path.with_name("linear.jsonl")
    rs.linear_region_count(Net(), DATA, slices=40, path=linear, dask="two")
    whole = rs.linear_region_count(Net(), DATA, slices=70)
    assert_same(rs.linear_region_count(Net(), DATA, slices=70, path=linear), whole)
