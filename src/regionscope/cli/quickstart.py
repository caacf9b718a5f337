"""``regionscope quickstart``: the first five minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from regionscope import plot
from regionscope import quickstart as first_job
from regionscope.cli import options, output
from regionscope.cli.running import work_bar
from regionscope.errors import MissingLibrary
from regionscope.explorer import explore


def quickstart(
    out: Annotated[Path, options.option("--output -o DIR", "Folder for the files.")] = Path("quickstart"),
    epochs: Annotated[int, options.option("--epochs", "Number of epochs.", least=1)] = 100,
    seed: Annotated[int, options.option("--seed", "Seed for data, weights and batches.", least=0)] = 0,
) -> None:
    """Train a 2-[32,32,32]-2 network on two moons, count its regions before and after, and write an explorer page.

    The page needs the extra explorer (Bokeh).
    """
    output.check_out(out)
    config = first_job.QuickstartConfig(epochs=epochs, seed=seed)
    with work_bar("Training") as bar:
        result = first_job.quickstart(config, progress=bar)
    Console().print(_before_and_after(result))
    with output.writing_to(out):
        written = first_job.save(result, out)
    picture = out / "regions.png"
    output.save_figure(plot.quickstart_figure(result), picture)
    for path in (picture, *written):
        typer.echo(f"wrote {path}")
    page = out / "explorer.html"
    try:
        with output.writing_to(page):
            explore(first_job.frames(result), page)
    except MissingLibrary as missing:
        typer.echo(f"no {page}: {missing}", err=True)
    else:
        typer.echo(f"wrote {page}; open it in a browser")


def _before_and_after(result: first_job.Quickstart) -> Table:
    """The table of the counts."""
    numbers = [Column(name, justify="right") for name in ("before training", "after")]
    table = Table("", *numbers, title=f"Exact regions on [-1, 1]^2 (seed {result.config.seed})")
    before, after = result.before, result.after
    for name, count in before.partition.by_layer.items():
        table.add_row(f"activation regions after {name}", f"{count:,}", f"{after.partition.by_layer[name]:,}")
    table.add_section()
    for title, first, second in (
        ("activation regions", before.partition.n_activation_regions, after.partition.n_activation_regions),
        ("linear regions", before.partition.n_linear_regions, after.partition.n_linear_regions),
        ("decision regions", before.decision.count, after.decision.count),
    ):
        table.add_row(title, f"{first:,}", f"{second:,}")
    table.add_section()
    table.add_row("accuracy", f"{before.accuracy:.1%}", f"{after.accuracy:.1%}")
    return table
