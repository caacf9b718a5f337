"""Putting a run's folder in order before it is worked on: what is damaged is set aside, never guessed at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regionscope.errors import Damaged
from regionscope.lab.store import files
from regionscope.lab.store.rows import fingerprint, parse


def mend(folder: Path) -> list[str]:
    """Repair a folder that is about to be worked on (its lock is held); one sentence for each thing found."""
    said = verify(folder)
    left = files.sweep_leftovers(folder) + files.sweep_leftovers(folder / "checkpoints")
    if left:
        said.append(f"{folder}: {left} half-written files of a process that was killed were deleted.")
    for name in ("provenance.json", "data.json"):
        said += _document(folder / name)
    rows = folder / "rows.jsonl"
    if not (folder / "result.json").exists() and rows.exists() and parse(rows.read_bytes()).torn:
        said.append(f"{rows}: the last line is incomplete, as after a kill, and is dropped.")
    return said


def is_whole(folder: Path) -> bool:
    """Whether ``verify`` would find nothing; only looks, so that it needs no lock."""
    return next(_damaged(folder), None) is None


def verify(folder: Path) -> list[str]:
    """Check a result, the rows it was made from and the checkpoints (the lock is held); one sentence for each thing
    set aside."""
    return [
        f"{what} It was set aside as {files.set_aside(path).name}{then}" for path, what, then in [*_damaged(folder)]
    ]


def _damaged(folder: Path) -> Iterator[tuple[Path, str, str]]:
    """Files that are not what was written: which, what was found, and what follows when it is set aside."""
    path, rows = folder / "result.json", folder / "rows.jsonl"
    result = None
    try:
        result = files.read_document(path)
    except Damaged as damage:
        yield path, str(damage), "."
    if result is not None and result.get("rows") != fingerprint(rows.read_bytes() if rows.exists() else b""):
        result = None
        yield path, f"{rows} is not as it was when the run ended; its result is void.", ", and the run is done again."
    ended = "" if result is None else " The numbers of the run are kept; delete its folder to train it again."
    for checkpoint in sorted((folder / "checkpoints").glob("step-*.safetensors")):
        try:
            files.read_tensor_header(checkpoint)
        except Damaged as damage:
            yield checkpoint, str(damage), f".{ended}"


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


def resume(folder: Path) -> tuple[Saved | None, list[str]]:
    """The saved state, with the rows cut back to those of its moment: training writes the rest again.

    Without a whole state, or where the rows up to it are not those that were written, the run starts from the
    beginning.
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
    if len(raw) > length:
        files.write_bytes(rows, raw[:length])
    return saved, said
