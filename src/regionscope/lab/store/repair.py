"""Putting a run's folder in order before it is worked on: what is damaged is set aside, never guessed at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regionscope.errors import Damaged
from regionscope.lab.store import files
from regionscope.lab.store.rows import fingerprint, parse

_OTHERS = ("provenance.json", "data.json")  # what no number depends on


def mend(folder: Path) -> list[str]:
    """Repair a folder that is about to be worked on (its lock is held); one sentence for each thing found."""
    said = verify(folder)
    left = files.sweep_leftovers(folder) + files.sweep_leftovers(folder / "checkpoints")
    if left:
        said.append(f"{folder}: {left} half-written files of a process that was killed were deleted.")
    for name in _OTHERS:
        said += _document(folder / name)
    rows = folder / "rows.jsonl"
    if not (folder / "result.json").exists() and rows.exists() and parse(rows.read_bytes()).torn:
        said.append(f"{rows}: the last line is incomplete, as after a kill, and is dropped.")
    return said


def is_intact(folder: Path) -> bool:
    """Whether ``mend`` would find nothing; only looks, so that it needs no lock."""
    try:
        documents = [files.read_document(folder / name) for name in ("config.json", *_OTHERS)]
    except Damaged:
        return False
    return documents[0] is not None and next(_damaged(folder), None) is None


def verify(folder: Path) -> list[str]:
    """Check a result, the rows it was made from and the checkpoints (the lock is held); one sentence for each thing
    set aside."""
    return [
        f"{what} It was set aside as {files.set_aside(path).name}{then}" for path, what, then in [*_damaged(folder)]
    ]


def checkpoint_files(folder: Path) -> list[Path]:
    """The stored weights of a run, in the order of training."""
    return sorted((folder / "checkpoints").glob("step-*.safetensors"))


def lost_checkpoints(folder: Path) -> set[str]:
    """Checkpoints that the result of a run names and that are not there. Cost: their contents are not read."""
    result = files.read_document(folder / "result.json") or {}
    return set(result.get("checkpoints", {})) - {path.name for path in checkpoint_files(folder)}


def _damaged(folder: Path) -> Iterator[tuple[Path, str, str]]:
    """Files that are not what was written: which, what was found, and what follows when it is set aside.

    Cost: all checkpoints are read, to compare their checksums.
    """
    yield from _of_the_wrong_kind(folder)
    path, rows = folder / "result.json", folder / "rows.jsonl"
    result = None
    try:
        result = files.read_document(path)
    except Damaged as damage:
        yield path, str(damage), "."
    if result is not None and result.get("rows") != fingerprint(rows.read_bytes() if rows.is_file() else b""):
        result = None
        yield path, f"{rows} is not as it was when the run ended; its result is void.", ", and the run is done again."
    marks = dict((result or {}).get("checkpoints", {}))  # a result of an older version has none
    for checkpoint in checkpoint_files(folder):
        harm = _harm(checkpoint, marks.get(checkpoint.name))
        if harm:
            yield checkpoint, harm, "."
        else:
            marks.pop(checkpoint.name, None)
    if marks:
        yield path, f"{folder} has lost {_named(marks)}; its result is void.", ", and the run is done again."


def _harm(checkpoint: Path, mark: str | None) -> str:
    """What is wrong with a checkpoint, by its own checksum and by the one that the result keeps; empty if nothing."""
    try:
        found = files.tensor_mark(checkpoint)
    except Damaged as damage:
        return str(damage)
    return "" if mark in (None, found) else f"{checkpoint} is not the one that the run wrote."


def _named(checkpoints: Iterable[str]) -> str:
    first, *others = sorted(checkpoints)
    return f"the checkpoint {first}{f' and {len(others)} more' if others else ''}"


def _of_the_wrong_kind(folder: Path) -> Iterator[tuple[Path, str, str]]:
    """Folders where files should be, and the other way round."""
    for name in ("rows.jsonl", "state.safetensors"):
        if (folder / name).is_dir():
            yield folder / name, f"{folder / name} is a folder where a file should be.", "."
    if (folder / "checkpoints").is_file():
        yield folder / "checkpoints", f"{folder / 'checkpoints'} is a file where a folder should be.", "."


def _document(path: Path) -> list[str]:
    try:
        files.read_document(path)
    except Damaged as damage:
        return [f"{damage} It was set aside as {files.set_aside(path).name}."]
    return []


@dataclass(frozen=True)
class Saved:
    """A saved state, and the notes in its header."""

    tensors: dict[str, Tensor]
    notes: dict[str, str]

    @property
    def rows(self) -> dict[str, Any]:
        """What ``fingerprint`` gave for the rows when it was saved."""
        return {"bytes": int(self.notes["rows_bytes"]), "crc32": self.notes["rows_crc32"]}

    @property
    def checkpoints(self) -> set[str]:
        """The checkpoints that there were when it was saved; a state of an older version names none."""
        return set(self.notes.get("checkpoints", "").split())


def resume(folder: Path) -> tuple[Saved | None, list[str]]:
    """The saved state, with the rows cut back to those of its moment: training writes the rest again.

    Without a whole state, or where the rows up to it are not those that were written, or where a checkpoint from before
    it is gone, the run starts from the beginning.
    """
    state, rows = folder / "state.safetensors", folder / "rows.jsonl"
    raw = rows.read_bytes() if rows.exists() else b""
    said: list[str] = []
    saved, length = None, 0
    if state.exists():
        try:
            saved = Saved(*files.read_tensors(state))
            length = saved.rows["bytes"]
        except (Damaged, KeyError, ValueError) as damage:
            saved, kept = None, files.set_aside(state).name
            said.append(f"{damage} It was set aside as {kept}, and the run starts from the beginning.")
    if saved is not None and fingerprint(raw[:length]) != saved.rows:
        files.remove(state)  # before the rows: a state without its rows must not be continued from
        found = f"is not as it was written; it was set aside as {files.set_aside(rows).name}" if raw else "is empty"
        said.append(f"{rows} {found}, and the run starts from the beginning.")
        saved, length, raw = None, 0, b""
    lost = set() if saved is None else saved.checkpoints - {path.name for path in checkpoint_files(folder)}
    if lost:
        files.remove(state)
        said.append(f"{folder} has lost {_named(lost)}, and the run starts from the beginning.")
        saved, length = None, 0
    if len(raw) > length:
        files.write_bytes(rows, raw[:length])
    return saved, said
