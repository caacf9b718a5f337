"""What the commands print and write."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from regionscope.cli.command_line import measured_with
from regionscope.errors import InputError
from regionscope.file_io import check_parent, plain, replace_file
from regionscope.formatting import either
from regionscope.provenance import provenance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES, JSON, PAGES = (".png", ".pdf", ".svg"), (".json",), (".html", ".htm")
_NO_DATE = {".png": {"Software": None}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}


def print_counts(title: str, counts: Mapping[str, float]) -> None:
    """A line, and two columns: what, and how many or how much."""
    console = Console()
    console.print(title, highlight=False)
    table = Table("", Column("", justify="right"), show_header=False)
    for name, count in counts.items():
        table.add_row(name, f"{count:,}" if isinstance(count, int) else f"{count:.8g}")
    console.print(table)


def json_text(document: Mapping[str, Any]) -> str:
    """The document as text; numbers that are not finite as null."""
    return json.dumps(plain(dict(document)), indent=2, allow_nan=False)


def write_result(document: Mapping[str, Any], files: Iterable[Path], *, printed: bool = False) -> None:
    """Write the document to the .json files among ``files``, and print it if asked for.

    It has the versions, the command line and checksums of the files that the command read.
    """
    text = json_text({**document, "provenance": {**provenance(), **measured_with()}})
    if printed:
        typer.echo(text)
    for path in with_ending(files, JSON):
        write_text(path, text + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def with_ending(files: Iterable[Path], endings: Iterable[str]) -> list[Path]:
    """The files with one of these endings, such as ``PICTURES``."""
    return [path for path in files if path.suffix in endings]


def save_figure(figure: Figure, path: Path) -> None:
    """Write the picture, without a date or random names in it, so that the same result gives the same file."""
    from matplotlib import rc_context

    form = path.suffix.removeprefix(".")  # the temporary name does not tell it
    with rc_context({"svg.hashsalt": "regionscope"}):
        write_file(path, lambda temporary: figure.savefig(temporary, format=form, metadata=_NO_DATE[path.suffix]))


def save_plot(figure: Figure, path: Path) -> None:
    """Write a picture, and print its path on stderr, since stdout may be JSON."""
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


def check_files(files: Iterable[Path], endings: Collection[str], *, dim: int = 0) -> None:
    """Raise ``InputError`` if a file of --output cannot be written. dim: dimension of the slice in a figure."""
    for path in files:
        if path.suffix not in endings:
            raise InputError(
                f"Expected an --output file that ends in {either(endings)}, got {str(path)!r}. "
                "Change the ending of the file."
            )
        if dim > 2 and path.suffix in PICTURES:
            raise InputError(
                f"Expected a slice of dimension 1 or 2 for the figure {str(path)!r}, got dimension {dim}. "
                "Leave the figure out, or use regionscope level-set for dimension 3."
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
        parent = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        if not parent.is_dir():
            raise InputError(
                f"Expected a folder for the files, got {str(folder)!r}, where {str(parent)!r} is a file. Pass "
                "another folder."
            )
        _try(parent)


def make_folder(folder: Path) -> None:
    """Create the folder for several files if it does not exist."""
    check_out(folder)
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)


def _try(folder: Path) -> None:
    """Open a nameless file in the folder: permissions do not show a read-only disk, or /proc."""
    with tempfile.TemporaryFile(dir=folder):
        pass
