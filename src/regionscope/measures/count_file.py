"""The counts of finished slices in a file, so that a count that was killed can be resumed.

JSON lines that are only ever added to, so that a kill can tear nothing but the last one. The first line is the setting,
all that the count of slice i depends on; every other line holds the counts of the slices that follow:

    {"region_count": {"sampler": "Hulls", "seed": 0, "dim": 1, ..., "model": "3f0c5d1e8a76b924"}}
    {"first": 0, "counts": [3, 5, 2]}
    {"first": 3, "counts": [4, 4, 1]}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.checks import is_integer, read_path
from regionscope.errors import Damaged, InputError
from regionscope.file_io import append_bytes, check_parent, cut_torn_line, flush_folder, parse_json, plain
from regionscope.inputs import Examples
from regionscope.measures.checksum import checksum
from regionscope.network import device_and_dtype
from regionscope.network.call.wrappers import unwrapped
from regionscope.sampled.drawn_slices import DrawnSlices, GivenSlices, SliceSampler
from regionscope.sampled.grid import RefinedCounts

_KIND = "region_count"
_LONGEST_SETTING = 1 << 16  # bytes
_TYPES = {"counts": torch.int64, "plain": torch.int64, "grid": torch.int64, "settled": torch.bool}


class CountFile:
    """The counts of one setting, slice by slice, in a file.

    finished: what the file held when it was opened. A file of another setting or another kind raises ``InputError`` and
    stays as it is. A torn last line is cut off; other damage raises ``Damaged``. The first ``append`` creates the file.
    """

    def __init__(self, path: str | Path, setting: Mapping[str, Any]) -> None:
        self.path = read_path(path)
        if self.path.exists() and not self.path.is_file():
            raise InputError(
                f"Expected a file for the counts, got {str(self.path)!r}, a folder or device. Pass a file name."
            )
        check_parent(self.path)
        self._setting = json.dumps({_KIND: plain(setting)}, default=float).encode() + b"\n"
        self._begun = self.path.exists() and self._has_setting()
        if self._begun:
            cut_torn_line(self.path)
        self._columns = tuple(_TYPES) if setting["method"] == "refined" else ("counts",)
        rows = [{name: torch.empty(0, dtype=_TYPES[name], device="cpu") for name in self._columns}]
        rows += self._read() if self._begun else ()
        found = {name: torch.cat([row[name] for row in rows]) for name in self._columns}
        self.finished = RefinedCounts(**found) if setting["method"] == "refined" else found["counts"]
        self._n = len(found["counts"])

    def append(self, result: Tensor | RefinedCounts) -> None:
        """Add the counts of the next slices, and return when they are on disk."""
        columns = {"counts": result} if isinstance(result, Tensor) else vars(result)
        line = {"first": self._n, **{name: columns[name].tolist() for name in self._columns}}
        append_bytes(self.path, (b"" if self._begun else self._setting) + json.dumps(line).encode() + b"\n")
        if not self._begun:
            flush_folder(self.path.parent)
        self._begun, self._n = True, self._n + len(columns["counts"])

    def _has_setting(self) -> bool:
        """Whether the file begins with this setting. If it holds only a part of the setting, it is emptied: False."""
        with self.path.open("rb") as file:
            line = file.readline(_LONGEST_SETTING)
        if self._setting.startswith(line) and line != self._setting:
            cut_torn_line(self.path)
            return False
        try:
            found = dict(parse_json(line)[_KIND])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"Expected a file that region_count or linear_region_count wrote, got {str(self.path)!r}, which holds "
                "something else. Choose another name for the counts."
            ) from error
        wanted = parse_json(self._setting)[_KIND]
        differing = [name for name in {**wanted, **found} if wanted.get(name) != found.get(name)]
        if differing:
            expected, got = (", ".join(f"{name}={each.get(name)!r}" for name in differing) for each in (wanted, found))
            raise InputError(
                f"Expected counts for {expected} in {str(self.path)!r}, got counts for {got}. Repeat the call that "
                "began the file, or choose another file."
            )
        return True

    def _read(self) -> Iterator[dict[str, Tensor]]:
        """The columns of each line after the first, without slices that an earlier line holds too."""
        n = 0
        with self.path.open("rb") as file:
            file.readline()
            for number, line in enumerate(file, 2):
                try:
                    row = parse_json(line)
                    found = {name: torch.tensor(row[name], device="cpu") for name in self._columns}
                    first, length = row["first"], len(found["counts"])
                except (ValueError, KeyError, TypeError, RuntimeError) as error:
                    raise self._damaged(number) from error
                fits = all(each.shape == (length,) and each.dtype == _TYPES[name] for name, each in found.items())
                if not (fits and is_integer(first, least=0) and first <= n):
                    raise self._damaged(number)
                yield {name: each[n - first :] for name, each in found.items()}
                n = max(n, first + length)

    def _damaged(self, line: int) -> Damaged:
        return Damaged(
            f"Expected the counts of further slices in line {line} of {str(self.path)!r}, got something else. Delete "
            "this line and all lines after it to count these slices again."
        )


def setting_of(
    model: Any, inputs: Examples | None, sampler: SliceSampler, *, method: str, grid: int | None = None,
    max_points: int | None = None, autocast: torch.dtype | None = None, pieces: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """All that the count of slice i depends on. Of the model, what ``checksum`` says.

    pieces: what ``linear_region_count`` counts; None for decision regions.
    """
    if not isinstance(model, nn.Module):
        raise InputError(
            f"Expected a torch module for path, whose weights the file is compared with, got {type(model).__name__}. "
            "Pass the module itself, or leave path out."
        )
    if not isinstance(sampler, DrawnSlices | GivenSlices):
        raise InputError(
            f"Expected Hulls, RandomDirections, LinesFromOrigin or a list of slices for path, got "
            f"{type(sampler).__name__}(), whose slices the file cannot be compared with. Pass a list of slices."
        )
    inner = unwrapped(model)
    return {
        "sampler": type(sampler).__name__,
        **{name: value for name, value in vars(sampler).items() if name in ("seed", "dim", "alpha", "length")},
        **({} if pieces is None else {"pieces": pieces}),
        "method": method,
        "grid": grid,
        "max_points": max_points if method == "refined" else None,
        "autocast": None if autocast is None else str(autocast),
        "device": device_and_dtype(inner)[0].type,
        "inputs": checksum(sampler.slices if isinstance(sampler, GivenSlices) else inputs),
        "model": checksum(inner),
    }
