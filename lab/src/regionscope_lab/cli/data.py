"""``regionscope-lab data``: list and download data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from regionscope.cli import options
from regionscope_lab.data import data_root, names
from regionscope_lab.data import get as get_data
from regionscope_lab.data.download import DOWNLOADS
from regionscope_lab.data.registry import entry

data = typer.Typer(no_args_is_help=True, help="List the data sets, and download those that are not built in.")


@data.command(name="list")
def show() -> None:
    """List the data sets, their options, and which of them are on disk.

    Example: regionscope-lab data list
    """
    folder = data_root()
    table = Table(title=escape(f"Data sets (data folder: {folder})"))
    for name in ("name", "what (options)", "input", "classes", "where"):
        table.add_column(name, overflow="fold", no_wrap=name in ("name", "input", "classes"))
    for name in names():
        known = entry(name)
        location = next((place for place in known.folders if (folder / place).is_dir()), "not on disk")
        where = location if known.folders else "built in"
        what = f"{known.about} ({', '.join(known.options)})"
        table.add_row(name, what, known.shape, known.classes, where)
    Console().print(table)


@data.command()
def get(
    name: Annotated[
        str,
        typer.Argument(help="Data set: mnist, fashion_mnist, cifar10 or cifar100.", autocompletion=lambda: DOWNLOADS),
    ],
    mirror: Annotated[str | None, options.option("--mirror URL", "URL of another server with the same files.")] = None,
    force: Annotated[bool, options.option("--force", "Whether to download an existing data set again.")] = False,
) -> None:
    """Download a data set, check the published md5 and unpack it where torchvision and regionscope look for it.

    Example: regionscope-lab data get cifar10
    """
    with _bars() as on_progress:
        done = get_data(name, mirror=mirror, force=force, on_progress=on_progress)
    typer.echo(f"{name} is in {done.folder}" if done.fresh else f"{name} was already in {done.folder}")


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each file, on stderr when that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks: dict[str, TaskID] = {}

        def update(file: str, done: int, total: int) -> None:
            if file not in tasks:
                tasks[file] = progress.add_task(file, total=total or None)
            progress.update(tasks[file], completed=done)

        yield update
