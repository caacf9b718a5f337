"""What the commands print and write."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from matplotlib import rc_context
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Column, Table

from regionscope.cli.command_line import measured_with
from regionscope.errors import InputError
from regionscope.file_io import check_parent, plain, replace_file
from regionscope.formatting import either
from regionscope.provenance import provenance

_NO_DATE = {".png": {"Software": None}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}


def print_counts(title: str, counts: Mapping[str, float]) -> None:
    """A line, and two columns: what, and how many or how much."""
    console = Console()
    console.print(title, highlight=False)
    table = Table("", Column("", justify="right"), show_header=False)
    for name, count in counts.items():
        table.add_row(name, f"{count:,}" if isinstance(count, int) else f"{count:.8g}")
    console.print(table)


def write_json(document: dict[str, Any], target: str) -> None:
    """Write ``document`` to the file ``target``, or to stdout when it is ``-``; numbers that are not finite as null."""
    text = json.dumps(plain(document), indent=2, allow_nan=False)
    if target == "-":
        typer.echo(text)
    else:
        write_file(Path(target), lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))


def write_result(document: Mapping[str, Any], target: str) -> None:
    """``write_json`` with the versions, the command line and checksums of the files that the command read."""
    write_json({**document, "provenance": {**provenance(), **measured_with()}}, target)


def save_figure(figure: Figure, path: Path) -> None:
    """Write the picture, without a date or random names in it, so that the same result gives the same file."""
    form = path.suffix.removeprefix(".")  # the temporary name does not tell it
    with rc_context({"svg.hashsalt": "regionscope"}):
        write_file(path, lambda temporary: figure.savefig(temporary, format=form, metadata=_NO_DATE[path.suffix]))


def save_plot(figure: Figure, path: Path) -> None:
    """Write the picture of --plot, and print its path on stderr, since stdout may be JSON."""
    save_figure(figure, path)
    typer.echo(f"wrote {path}", err=True)


def write_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write an output file, whole or not at all (see ``replace_file``). Raises ``InputError`` if that fails."""
    with writing_to(path):
        replace_file(path, write)


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Raise ``InputError`` in place of an error of the system while ``path`` is written."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"Expected a place that can be written to, got {str(path)!r} ({error.strerror or error}). Pass another "
            "file."
        ) from error


def check_json(target: str | None) -> None:
    """Raise ``InputError`` if ``write_json`` cannot write there. None stands for no file, ``-`` for stdout."""
    if target is not None and target != "-":
        check_folder(Path(target))


def check_plot(path: Path, dim: int) -> None:
    """Raise ``InputError`` if the picture cannot be drawn or written."""
    if path.suffix not in _NO_DATE:
        raise InputError(
            f"Expected a --plot file that ends in {either(_NO_DATE)}, got {str(path)!r}. Change the ending of the file."
        )
    if dim > 2:
        raise InputError(
            f"Expected a slice of dimension 1 or 2 for --plot, got dimension {dim}. "
            "Leave --plot out, or use regionscope surface for dimension 3."
        )
    check_folder(path)


def check_folder(path: Path) -> None:
    """Raise ``InputError`` if the file cannot be written."""
    with writing_to(path):
        if path.is_dir():
            raise InputError(f"Expected the name of a file, got the folder {str(path)!r}. Add a file name to the path.")
        check_parent(path)
        if path.is_file() or not path.exists():  # pipes and devices are written to as they are
            _try(path.resolve().parent)


def check_out(folder: Path) -> None:
    """Raise ``InputError`` if ``folder`` cannot be created or takes no new files."""
    with writing_to(folder):
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        if not there.is_dir():
            raise InputError(
                f"Expected a folder for the files, got {str(folder)!r}, where {str(there)!r} is a file. Pass "
                "another folder."
            )
        _try(there)


def make_folder(folder: Path) -> None:
    """Create the folder for several files if it does not exist."""
    check_out(folder)
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)


def _try(folder: Path) -> None:
    """Open a nameless file in the folder: permissions do not show a read-only disk, or /proc."""
    with tempfile.TemporaryFile(dir=folder):
        pass
