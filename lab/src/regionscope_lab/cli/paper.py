"""``regionscope-lab paper``: rerun a table or figure of a paper and compare it with the numbers in the paper."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console
from rich.table import Table

from regionscope.checks import unknown_name
from regionscope.cli import options, output
from regionscope.cli.running import duration, work_bar
from regionscope.errors import InputError
from regionscope.formatting import counted
from regionscope.provenance import provenance
from regionscope_lab.cli.running import interruptible, print_failed, shown_progress
from regionscope_lab.papers import pages as graded_pages
from regionscope_lab.papers import report as pages
from regionscope_lab.papers.archive import pack, unpack
from regionscope_lab.papers.catalogue import find, studies
from regionscope_lab.papers.chart_figures import chart_figure
from regionscope_lab.papers.charts import Chart
from regionscope_lab.papers.declaration import Item, all_items
from regionscope_lab.papers.seed_table import SeedTable
from regionscope_lab.papers.study import Size, Study
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.store.files import write_bytes, write_document
from regionscope_lab.sweep import run_sweep

paper = typer.Typer(
    no_args_is_help=True, help="Reproduce the tables and figures of the four papers, and answer questions beyond them."
)

_PROVENANCE = ("regionscope", "commit", "torch", "python", "device", "device_name", "machine", "cores")

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of a study (see `paper list`), name of a paper such as li2025, or all.",
        autocompletion=lambda: ["all", *(item.full_name for item in all_items()), *(study.name for study in studies())],
    ),
]
SizeOption = Annotated[
    str, options.option("--size", "Size: smoke (seconds), desk (two cores) or full (close to the paper).")
]
FolderOption = Annotated[Path, options.option("--folder DIR", "Folder of runs and results, which all studies share.")]


ArchiveOption = Annotated[
    Path | None,
    options.option("--archive PATH", "Archive of runs: a file written by `paper pack`, or a folder of such files."),
]


@paper.command("list")
def list_studies() -> None:
    """List the items of the papers, and the studies beyond them."""
    table = Table("name", "where", "claim")
    for item in all_items():
        table.add_row(item.full_name, item.where, item.claims[0].says)
    for study in studies():
        table.add_row(study.name, study.source, study.claim)
    Console().print(table)


@paper.command()
def run(
    name: NameArgument,
    size: SizeOption = "desk",
    folder: FolderOption = Path("studies"),
    workers: Annotated[int, options.option("--workers", "Number of processes on this machine.", least=1)] = 1,
    device: options.DeviceOption = "cpu",
    dask: options.DaskOption = None,
    archive: ArchiveOption = None,
    progress: options.ProgressOption = None,
) -> None:
    """Train the missing runs of the studies, then write their reports. Run the command again to resume.

    Example: regionscope-lab paper run li2025-figure4 --size smoke
    """
    items, chosen, scale = *_chosen(name), _size(size)
    if dask is None:
        options.read_device(device)
    workspace = Workspace(folder, workers=workers, device=device)
    if archive is not None:
        unpack(archive, folder)
    several = workers > 1 or dask is not None
    wanted = [one for item in items for mine in item.experiments(scale).values() for one in mine]
    while missing := workspace.missing(
        [*wanted, *(experiment for study in chosen for experiment in study.planned(workspace, scale))]
    ):
        with interruptible() as stop, shown_progress(len(missing), progress, workers=several) as shown:
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
        _write_item(item, scale, workspace, folder / "reports")
    for study in chosen:
        _write(study, scale, workspace, folder / "reports")


def _chosen(name: str) -> tuple[tuple[Item, ...], tuple[Study, ...]]:
    """The items of the papers and the studies beyond them that a name stands for."""
    items = tuple(item for item in all_items() if name in ("all", item.full_name, item.paper))
    known = [study for study in studies() if name in ("all", study.name, study.paper)]
    return items, (tuple(known) if items else find(name))


def _write_item(item: Item, size: str, workspace: Workspace, target: Path) -> None:
    """Compute what the item reads beside its runs; at size full, grade it and write its page."""
    output.check_out(target)
    workspace.used.clear()
    with work_bar(item.full_name) as workspace.on_share:
        item.compute(workspace, _size(size))
    runs = sum(len(mine) for mine in item.experiments(_size(size)).values())
    done = f"{item.full_name}: {counted(runs, 'run')}, {counted(len(workspace.used), 'computed answer')}"
    if size != "full":
        typer.echo(f"{done}; size {size} is not graded")
        return
    stored = SeedTable.read(workspace.folder)
    answers: dict[str, list[dict[str, Any]]] = {}
    for path, document in workspace.used.items():
        answers.setdefault(Path(path).name.rsplit("-", 1)[0], []).append(document)
    finding = item.find(SeedTable(stored.runs, answers))
    output.make_folder(target)
    with output.writing_to(target / f"{item.full_name}.md"):
        write_bytes(target / f"{item.full_name}.md", graded_pages.item_page(item, finding).encode())
    typer.echo(f"{done}; {target / f'{item.full_name}.md'}")


@paper.command("grade")
def grade(
    archive: Annotated[Path, options.option("--archive PATH", "Archive of runs, or a folder of archives.")] = Path(
        "docs/results/runs"
    ),
    out: Annotated[
        Path, options.option("--output -o DIR", "Folder of papers.md and of the pages of the papers.")
    ] = Path("docs"),
    check: Annotated[
        bool, options.option("--check", "Whether to compare with the pages that exist instead of writing them.")
    ] = False,
) -> None:
    """Grade all stored runs of the four papers again, and write their pages.

    Example: regionscope-lab paper grade --check
    """
    written = graded_pages.pages(graded_pages.graded(SeedTable.read(archive)))
    differing = [name for name, text in written.items() if not _same(out / name, text)]
    if check and differing:
        raise InputError(
            f"Expected the pages that the stored runs give, got others: {', '.join(differing)}. Write them with "
            "regionscope-lab paper grade."
        )
    for name in differing:
        output.make_folder((out / name).parent)
        with output.writing_to(out / name):
            write_bytes(out / name, written[name].encode())
    typer.echo(f"{counted(len(written), 'page')}, {len(differing)} changed")


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


@paper.command()
def report(
    name: NameArgument,
    size: SizeOption = "desk",
    folder: FolderOption = Path("studies"),
    archive: ArchiveOption = None,
    out: Annotated[
        Path | None, options.option("--output -o DIR", "Folder of the pages; by default reports/ in --folder.")
    ] = None,
) -> None:
    """Write the pages of studies beyond the papers from their stored runs, without training.

    Example: regionscope-lab paper report beyond --size full -o docs/results
    """
    chosen, scale = find(name), _size(size)
    target = out or folder / "reports"
    if archive is not None:
        unpack(archive, folder)
    for study in chosen:
        _write(study, scale, Workspace(folder), target)


@paper.command("pack")
def pack_runs(
    archive: Annotated[Path, typer.Argument(metavar="FILE.zip", help="Archive to add to; created if missing.")],
    folder: FolderOption = Path("studies"),
) -> None:
    """Add the ended runs and computed results of --folder to an archive, without the weights.

    Reports that need weights use the results that an earlier report computed from them.

    Example: regionscope-lab paper pack docs/results/runs/li2025.zip
    """
    with output.writing_to(archive):
        runs = pack(folder, archive)
    typer.echo(f"{archive}: {counted(runs, 'run')}, {archive.stat().st_size:,} bytes")


def _write(study: Study, size: Size, workspace: Workspace, target: Path) -> None:
    """Analyse one study and write its page, figures and numbers."""
    home = target / study.name
    output.check_out(home)
    workspace.used.clear()
    with work_bar(study.name) as workspace.on_share:
        outcome = study.analyse(workspace, size)
    wanted = study.planned(workspace, size)
    runs = (workspace.of_seeds(workspace.whole_seeds(wanted)) if study.seeded else workspace).ended(wanted)
    made = [*(stored.result() or {} for stored in runs), *workspace.used.values()]
    seconds = sum(float(numbers.get("seconds") or 0) for numbers in made)
    known = [numbers["provenance"] for numbers in workspace.used.values() if "provenance" in numbers]
    figures = _write_figures(outcome.charts, home)
    page = pages.Page(
        study=study, size=size, outcome=outcome, figures=tuple(figures), seconds=seconds,
        experiments=tuple(stored.experiment for stored in runs),
        provenance=_made_with([*(stored.provenance for stored in runs), *known]),
    )  # fmt: skip
    embedded = {
        name: "data:image/png;base64," + base64.b64encode((home / name).read_bytes()).decode() for name in figures
    }
    with output.writing_to(home):
        write_bytes(home / "report.md", pages.as_markdown(page).encode())
        write_bytes(home / "report.html", pages.as_html(page, embedded).encode())
        write_document(home / "data.json", pages.as_data(page))
    typer.echo(f"{study.name}: {page.verdict} ({duration(seconds)}); {home / 'report.md'}")


def _write_figures(charts: Sequence[Chart], home: Path) -> list[str]:
    """Write the charts in place of those that were there, and return their names."""
    output.make_folder(home)
    with output.writing_to(home):
        for old in home.glob("figure*.png"):
            old.unlink()
    names = [f"figure{i}.png" for i in range(1, len(charts) + 1)]
    for chart, name in zip(charts, names, strict=True):
        output.save_figure(chart_figure(chart), home / name)
        _shrink(home / name)
    return names


def _shrink(path: Path) -> None:
    """Store the picture with a palette of 256 colours, in less than half of the bytes."""
    from PIL import Image  # comes with matplotlib

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    output.write_file(path, lambda temporary: small.save(temporary, format="PNG", optimize=True))


def _made_with(known: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The provenance that all numbers share; that of this machine if none is stored."""
    first, *others = known or [provenance()]
    same = [name for name in _PROVENANCE if all(other.get(name) == first.get(name) for other in others)]
    return {name: first[name] for name in same if first.get(name) is not None}


def _size(text: str) -> Size:
    known: Sequence[Size] = get_args(Size)
    for size in known:
        if text == size:
            return size
    raise unknown_name("a valid --size", text, known)
