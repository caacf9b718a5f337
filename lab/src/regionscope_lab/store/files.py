"""Atomic files: written under a temporary name, flushed to disk, then renamed.

Every document carries a checksum of its content, so that a damaged file is told from a good one when it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from regionscope.errors import Damaged, InputError, RegionscopeError
from regionscope.file_io import flush_folder, full_disk_as_error, parse_json, plain, replace_file

_CHECKSUM = "checksum"


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write one JSON object, with a checksum of its content, in place of what was there."""
    write_bytes(path, encode_document(document))


def encode_document(document: Mapping[str, Any]) -> bytes:
    """What ``write_document`` writes."""
    content = plain(document)
    content.pop(_CHECKSUM, None)
    return (json.dumps(content | {_CHECKSUM: digest(content)}, indent=1, allow_nan=False) + "\n").encode()


def read_document(path: Path) -> dict[str, Any] | None:
    """The JSON object, without its checksum; None where there is no file."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except IsADirectoryError as error:
        raise Damaged(f"Expected a file at {path}, got a folder.") from error
    try:
        content = parse_json(raw)
    except ValueError as error:
        raise Damaged(f"Expected JSON in {path}, got {len(raw)} bytes that are not.") from error
    if not isinstance(content, dict):
        raise Damaged(f"Expected a JSON object in {path}, got a {type(content).__name__}.")
    if content.pop(_CHECKSUM, None) != digest(content):
        raise Damaged(
            f"Expected the stored checksum for {path}, got another: the file was changed after it was written."
        )
    return content


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """Write named tensors as safetensors, with ``notes`` and a checksum in the header, in place of what was there."""
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # Two names of one storage (tied weights) are refused by the format; each gets its own copy.
    seen: set[int] = set()
    for name, tensor in held.items():
        if tensor.numel() and tensor.data_ptr() in seen:
            held[name] = tensor.clone()
        seen.add(held[name].data_ptr())
    metadata = dict(notes or {}) | {_CHECKSUM: _tensor_digest(held)}
    raw = safetensors.torch.save(held, metadata)  # not save_file, whose files only their owner can read
    write_bytes(path, raw)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors, on the CPU, and the notes; a file that was cut or changed is ``Damaged``."""
    try:
        tensors = safetensors.torch.load(path.read_bytes())
    except (safetensors.SafetensorError, ValueError, IsADirectoryError) as error:
        raise Damaged(f"Expected a complete safetensors file at {path}, got another ({error}).") from error
    notes = read_tensor_header(path)
    if notes.pop(_CHECKSUM, None) != _tensor_digest(tensors):
        raise Damaged(
            f"Expected the stored checksum for {path}, got another: the file was changed after it was written."
        )
    return tensors, notes


def read_tensor_header(path: Path) -> dict[str, str]:
    """The notes in the header; the length of the file is checked against it, the tensors are not read."""
    if path.is_dir():
        raise Damaged(f"Expected a file at {path}, got a folder.")
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= size - 8:
            raise Damaged(f"Expected a complete safetensors file at {path}, got {size} bytes.")
        try:
            header = parse_json(file.read(length))
            end = max((entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"Expected a safetensors header in {path}, got other content.") from error
    if size != 8 + length + end:
        raise Damaged(f"Expected {8 + length + end:,} bytes in {path}, as its header says, got {size:,}.")
    return dict(header.get("__metadata__", {}))


def tensor_mark(path: Path) -> str:
    """A checksum of the tensors and notes of a file that ``write_tensors`` wrote; one that was changed is ``Damaged``.

    It is the same for the same content: the format itself writes the notes in any order.
    """
    read_tensors(path)
    return digest(read_tensor_header(path))


def write_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` in place of what was there."""
    with full_disk_as_error(path):
        replace_file(path, lambda temporary: temporary.write_bytes(data))


def make_folder(path: Path, runs_dir: Path | str) -> None:
    """Make a folder in (or of) ``runs_dir``, if it is not there."""
    try:
        with full_disk_as_error(path):
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Expected a folder for the runs, got {str(runs_dir)!r}, which cannot be created: {error}. Choose another."
        ) from error


def set_aside(path: Path) -> Path:
    """Rename a damaged file, in its folder, to a name that is never read, and return the new path.

    Does nothing if another process has just renamed it.
    """
    for number in range(1, 10_000):
        other = path.with_name(f"{path.name}.damaged-{number}")
        if not other.exists():
            with full_disk_as_error(other), suppress(FileNotFoundError):
                os.replace(path, other)
            flush_folder(path.parent)
            return other
    raise RegionscopeError(
        f"Expected fewer than 10,000 damaged copies of {path.name} in {path.parent}, got more. Delete them."
    )


def remove(path: Path) -> None:
    """Delete a file, if it is there."""
    with suppress(FileNotFoundError):
        path.unlink()
        flush_folder(path.parent)


def sweep_leftovers(folder: Path) -> int:
    """Delete the temporary files of writers that were killed, and return how many there were."""
    leftovers = [path for path in folder.glob(".*.tmp") if path.is_file()]
    for path in leftovers:
        remove(path)
    return len(leftovers)


def digest(content: Mapping[str, Any]) -> str:
    """The checksum that a document with this content carries."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _tensor_digest(tensors: Mapping[str, Tensor]) -> str:
    """CRC-32 over names, types, shapes and bytes: it finds damage, and costs a second for a gigabyte."""
    digest = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        digest = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), digest)
        if tensor.numel():
            digest = zlib.crc32(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data, digest)
    return f"{digest:08x}"
