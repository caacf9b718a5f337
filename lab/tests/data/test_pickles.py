"""Hostile and broken pickles: refused with a sentence, and nothing of them is run."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regionscope.errors import InputError
from regionscope_lab.data.pickles import read_pickle
from small_files import images, old_pickle


class Runs:
    """Pickles to a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


MARK = "PICKLE_HAS_RUN"
HOSTILE = {
    "a shell command": (pickle.dumps({"data": Runs(os.system, f"touch {MARK}")}), "posix.system"),
    "eval": (pickle.dumps({"data": Runs(eval, f"open({MARK!r}, 'w')")}), "builtins.eval"),
    "a dotted name": (b"\x80\x04\x8c\x05numpy\x8c\x11ndarray.__class__\x93.", "numpy.ndarray.__class__"),
    "an attribute of an allowed name": (b"\x80\x04\x8c\x05numpy\x8c\x08testing.\x93.", "numpy.testing"),
    "another codec": (pickle.dumps({"x": Runs(__import__("_codecs").encode, "ab", "rot13")}), "other than latin1"),
    "old style instance": (b"(S'touch x'\nios\nsystem\n.", "the opcode INST"),
    "an extension": (b"\x82\x01.", "the opcode EXT1"),
    "a persistent name": (b"Pabc\n.", "the opcode PERSID"),
    "a class": (b"\x80\x02cnumpy\nndarray\n)\x81.", "the opcode NEWOBJ"),
    "a memo of 16 GiB": (b"\x80\x02K\x01r\xff\xff\xff\x7f.", "memo entries in a file of"),
    "a nest of tuples": (b"\x80\x02}" + b")" + b"\x85" * 200_000 + b"K\x01s.", "more than 1,000 tuples"),
    "objects in an array": (pickle.dumps({"data": np.array([{}, []], dtype=object)}, 4), "not described by"),
    "big-endian numbers": (pickle.dumps({"data": np.arange(3, dtype=">i4")}, 4), "plain little-endian numbers"),
    "complex numbers": (pickle.dumps({"data": np.arange(3, dtype=complex)}, 4), "dtype 'c16'; accepted are u1"),
    "other bytes than the shape says": (
        old_pickle(images(2, 9), {}).replace(b"J\x09\0\0\0", b"J\x0a\0\0\0"), r"shape \(2, 10\)"
    ),
    "no dict": (pickle.dumps([1, 2]), "holds a list where a dict"),
    "a number as key": (pickle.dumps({1: 2}), "where a string is expected"),
    "lists of lists as a dtype": (
        b"\x80\x02](K\x01e"
        + b"".join(b"q%c](h%ch%ce" % (i, i, i) for i in range(60))
        + b"q\x50cnumpy\ndtype\nh\x50\x85R.",
        "a list where a string is expected",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_pickles_are_refused(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    raw, reason = HOSTILE[what]
    (tmp_path / "data_batch_1").write_bytes(raw)
    with pytest.raises(InputError, match=f"plain data at '.*data_batch_1', got another: .*({reason})"):
        read_pickle(tmp_path / "data_batch_1")
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"garbage",
        b"<html>",
        old_pickle(images(2, 9), {"labels": [1, 2]})[:-20],
        b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"abc.",  # claims a terabyte
        b"\x80\x02}]K\x01s.",  # a list as a key
        b"\x80\x02K\x01K\x02s.",
        b"\x80\x02cnumpy\ndtype\n(K\x01o.",
    ],
)
def test_broken_pickles_are_one_sentence(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "test_batch").write_bytes(raw)
    with pytest.raises(InputError, match="test_batch"):
        read_pickle(tmp_path / "test_batch")


@pytest.mark.parametrize("name", [b"c_codecs\nencode\n", b"cnumpy\ndtype\n", b"cnumpy\nndarray\n"])
@pytest.mark.parametrize("slot", [b"U\x0c__defaults__U\x05rot13\x85", b"U\x07__new__N", b"U\x05arrayN"])
def test_a_pickle_cannot_change_the_reader(name: bytes, slot: bytes, tmp_path: Path) -> None:
    (tmp_path / "batch").write_bytes(b"\x80\x02" + name + b"N}(" + slot + b"u\x86b0}.")
    with pytest.raises(InputError, match="batch"):
        read_pickle(tmp_path / "batch")
    (tmp_path / "batch").write_bytes(pickle.dumps({"a": np.arange(3)}, protocol=2))
    assert read_pickle(tmp_path / "batch")["a"].tolist() == [0, 1, 2]


def test_plain_data_comes_through(tmp_path: Path) -> None:
    numbers = np.arange(6, dtype=np.float64).reshape(2, 3)
    content: dict[str, Any] = {
        "a": numbers,
        "b": np.asfortranarray(numbers.astype(np.int32)),
        "c": [1, "x", b"y", None, 2.5],
        "d": {},
    }
    for protocol in (2, 3, 4):
        (tmp_path / "batch").write_bytes(pickle.dumps(content, protocol=protocol))
        found = read_pickle(tmp_path / "batch")
        assert found["c"] == content["c"]
        assert found["d"] == {}
        for key in ("a", "b"):
            np.testing.assert_array_equal(found[key], content[key])
            assert found[key].dtype == content[key].dtype
