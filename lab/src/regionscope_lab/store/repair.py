"""Repair of a run's folder before a process works on it: damaged files are renamed, never guessed at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regionscope.errors import Damaged
from regionscope.monitor.rows import parse
from regionscope_lab.store import files
from regionscope_lab.store.row_files import fingerprint

_OTHERS = ("provenance.json", "data.json")  # what no number depends on


def repair_folder(folder: Path) -> list[str]:
    """Repair a folder whose lock is held; return a message for each thing found."""
    messages = verify(folder)
    left = files.sweep_leftovers(folder) + files.sweep_leftovers(folder / "checkpoints")
    if left:
        messages.append(f"{folder}: {left} half-written files of a process that was killed were deleted.")
    for name in _OTHERS:
        messages += _document(folder / name)
    rows = folder / "rows.jsonl"
    if not (folder / "result.json").exists() and rows.exists() and parse(rows.read_bytes()).torn:
        messages.append(f"{rows}: the last line is incomplete, as after a kill, and is dropped.")
    return messages


def is_intact(folder: Path) -> bool:
    """Whether ``repair_folder`` would find nothing. Changes nothing, and needs no lock."""
    try:
        documents = [files.read_document(folder / name) for name in ("config.json", *_OTHERS)]
    except Damaged:
        return False
    return documents[0] is not None and next(_damaged(folder), None) is None


def verify(folder: Path) -> list[str]:
    """Check the result, its rows and the checkpoints of a folder whose lock is held; return a message for each file
    that was set aside.
    """
    return [
        f"{damage} It was set aside as {files.set_aside(path).name}{then}" for path, damage, then in [*_damaged(folder)]
    ]


def checkpoint_files(folder: Path) -> list[Path]:
    """The stored weights of a run, in the order of training."""
    return sorted((folder / "checkpoints").glob("step-*.safetensors"))


def lost_checkpoints(folder: Path) -> set[str]:
    """Checkpoints that the result of a run names and that are not there. Cost: their contents are not read."""
    result = files.read_document(folder / "result.json") or {}
    return set(result.get("checkpoints", {})) - {path.name for path in checkpoint_files(folder)}


def _damaged(folder: Path) -> Iterator[tuple[Path, str, str]]:
    """Files that differ from what was written: path, damage, and the end of the message once the file is set aside.

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
        problem = _checkpoint_damage(checkpoint, marks.get(checkpoint.name))
        if problem:
            yield checkpoint, problem, "."
        else:
            marks.pop(checkpoint.name, None)
    if marks:
        yield path, f"{folder} has lost {_named(marks)}; its result is void.", ", and the run is done again."


def _checkpoint_damage(checkpoint: Path, mark: str | None) -> str:
    """What is wrong with a checkpoint by its own checksum, and by the one in the result; empty if nothing is."""
    try:
        written = files.tensor_mark(checkpoint)
    except Damaged as damage:
        return str(damage)
    return "" if mark in (None, written) else f"{checkpoint} is not the one that the run wrote."


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
    """A saved state of a training, and the notes in the header of its file."""

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
    """The saved state, and messages about what was repaired. Rows after the state are cut off: training repeats them.

    If the state or the rows before it are damaged, or a checkpoint from before it is missing, the state is None and the
    run starts from the beginning.
    """
    state, rows = folder / "state.safetensors", folder / "rows.jsonl"
    raw = rows.read_bytes() if rows.exists() else b""
    messages: list[str] = []
    saved, length = None, 0
    if state.exists():
        try:
            saved = Saved(*files.read_tensors(state))
            length = saved.rows["bytes"]
        except (Damaged, KeyError, ValueError) as damage:
            saved, kept = None, files.set_aside(state).name
            messages.append(f"{damage} It was set aside as {kept}, and the run starts from the beginning.")
    if saved is not None and fingerprint(raw[:length]) != saved.rows:
        files.remove(state)  # before the rows: a state without its rows must not be continued from
        condition = f"is not as it was written; it was set aside as {files.set_aside(rows).name}" if raw else "is empty"
        messages.append(f"{rows} {condition}, and the run starts from the beginning.")
        saved, length, raw = None, 0, b""
    lost = set() if saved is None else saved.checkpoints - {path.name for path in checkpoint_files(folder)}
    if lost:
        files.remove(state)
        messages.append(f"{folder} has lost {_named(lost)}, and the run starts from the beginning.")
        saved, length = None, 0
    if len(raw) > length:
        files.write_bytes(rows, raw[:length])
    return saved, messages
