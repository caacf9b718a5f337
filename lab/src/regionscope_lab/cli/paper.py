"""``regionscope-lab paper``: rerun a table or figure of a paper and compare it with the numbers in the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from regionscope.checks import unknown_name
from regionscope.cli import options, output
from regionscope.cli.running import work_bar
from regionscope.errors import InputError
from regionscope.formatting import counted
from regionscope_lab.cli.options import ProgressOption
from regionscope_lab.cli.running import interruptible, print_failed, shown_progress
from regionscope_lab.papers import pages
from regionscope_lab.papers.archive import pack, unpack
from regionscope_lab.papers.declaration import SIZES, Finding, Item, Size, all_items, find_items
from regionscope_lab.papers.figures import draw
from regionscope_lab.papers.seed_table import SeedTable
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.store.files import write_bytes
from regionscope_lab.sweep import run_sweep

paper = typer.Typer(
    no_args_is_help=True, help="Reproduce the tables and figures of the four papers, and answer questions beyond them."
)

_ARCHIVES = Path("docs/results/runs")
FolderOption = Annotated[Path, options.option("--folder DIR", "Folder of runs and results, which all items share.")]


@paper.command("list")
def list_items() -> None:
    """List the items of the papers, and those beyond them."""
    table = Table("name", "where", "claim")
    for item in all_items():
        table.add_row(item.full_name, item.where, item.claims[0].says)
    Console().print(table)


@paper.command()
def run(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of an item (see `paper list`), name of a paper such as li2025, or all.",
            autocompletion=lambda: ["all", *(item.full_name for item in all_items())],
        ),
    ],
    size: Annotated[
        str, options.option("--size", "Size: smoke (seconds), desk (two cores) or full (close to the paper).")
    ] = "desk",
    folder: FolderOption = Path("studies"),
    workers: Annotated[int, options.option("--workers", "Number of processes on this machine.", least=1)] = 1,
    device: options.DeviceOption = "cpu",
    dask: options.DaskOption = None,
    archive: Annotated[
        Path | None,
        options.option("--archive PATH", "Archive to start from: a file of `paper pack`, or a folder of such files."),
    ] = None,
    progress: ProgressOption = None,
) -> None:
    """Train the missing runs of items, then write the page and figure of each. Run the command again to resume.

    Example: regionscope-lab paper run li2025-figure4 --size smoke
    """
    items, scale = find_items(name), _size(size)
    if dask is None:
        options.read_device(device)
    output.check_out(folder / "reports")
    workspace = Workspace(folder, workers=workers, device=device)
    if archive is not None:
        unpack(archive, folder)
    missing = workspace.missing(one for item in items for mine in item.experiments(scale).values() for one in mine)
    if missing:
        with (
            interruptible() as stop,
            shown_progress(len(missing), progress, workers=workers > 1 or bool(dask)) as shown,
        ):
            done = run_sweep(
                missing, workspace.runs_folder, workers=workers, device=device, dask=dask, stop=stop,
                on_outcome=shown.outcome, on_share=shown.share,
            )  # fmt: skip
        print_failed(done.outcomes)
        if not done.complete:
            typer.echo(f"{done.reason} Run the same command again to resume.", err=True)
            raise typer.Exit(3)
        if done.count("failed"):
            raise typer.Exit(1)
    for item in items:
        _write(item, scale, workspace)


def _write(item: Item, size: Size, workspace: Workspace) -> None:
    """Compute what the item reads beside its runs, grade it, and write its page and figures; nothing at size smoke."""
    workspace.used.clear()
    with work_bar(item.full_name) as workspace.on_share:
        item.compute(workspace, size)
    runs = sum(len(mine) for mine in item.experiments(size).values())
    made = f"{counted(runs, 'run')}, {counted(len(workspace.used), 'computed answer')}"
    if size == "smoke":
        typer.echo(f"{item.full_name}: {made}; size smoke is not graded")
        return
    answers: dict[str, list[dict[str, Any]]] = {}
    for path, document in workspace.used.items():
        answers.setdefault(Path(path).name.rsplit("-", 1)[0], []).append(document)
    finding = item.find(SeedTable(SeedTable.read(workspace.folder).runs, answers), size)
    target = workspace.folder / "reports" / size
    output.make_folder(target)
    with output.writing_to(target):
        write_bytes(target / f"{item.full_name}.md", pages.item_page(item, finding, size).encode())
    _draw(item.full_name, finding, target)
    typer.echo(f"{item.full_name}: {made}; {target / f'{item.full_name}.md'}")


def _draw(name: str, finding: Finding, folder: Path) -> None:
    for i, figure in enumerate(finding.figures, 1):
        output.save_figure(draw(figure), folder / f"{name}-{i}.png")


@paper.command()
def report(
    archive: Annotated[Path, options.option("--archive PATH", "Archive of runs, or a folder of archives.")] = _ARCHIVES,
    out: Annotated[Path, options.option("--output -o DIR", "Folder of papers.md and of the pages.")] = Path("docs"),
    figures: Annotated[
        Path | None, options.option("--figures DIR", "Folder to draw the figures of all items in.")
    ] = None,
    check: Annotated[
        bool, options.option("--check", "Whether to compare with the pages that exist instead of writing them.")
    ] = False,
) -> None:
    """Grade all stored runs again, and write the pages of results.

    Example: regionscope-lab paper report --check
    """
    found = pages.graded(SeedTable.read(archive))
    if figures is not None:
        output.make_folder(figures)
        for name, finding in found.items():
            _draw(name, finding, figures)
    written = pages.pages(found)
    differing = [name for name, text in written.items() if not _same(out / name, text)]
    if check and differing:
        raise InputError(
            f"Expected the pages that the stored runs give, got others: {', '.join(differing)}. Write them with "
            "regionscope-lab paper report."
        )
    for name in differing:
        output.make_folder((out / name).parent)
        with output.writing_to(out / name):
            write_bytes(out / name, written[name].encode())
    typer.echo(f"{counted(len(written), 'page')}, {len(differing)} changed")


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


@paper.command("pack")
def pack_runs(
    archive: Annotated[Path, typer.Argument(metavar="FILE.zip", help="Archive to add to; created if missing.")],
    folder: FolderOption = Path("studies"),
) -> None:
    """Add the ended runs and computed results of --folder to an archive, without the weights.

    What is computed from weights is in the archive, too, and is not computed again.

    Example: regionscope-lab paper pack docs/results/runs/li2025.zip
    """
    with output.writing_to(archive):
        runs = pack(folder, archive)
    typer.echo(f"{archive}: {counted(runs, 'run')}, {archive.stat().st_size:,} bytes")


def _size(text: str) -> Size:
    for size in SIZES:
        if text == size:
            return size
    raise unknown_name("a valid --size", text, SIZES)
