"""``regionscope explore``: partitions as one HTML page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from zipfile import is_zipfile

import typer

from regionscope.cli import options, output
from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, Partition
from regionscope.exact.decision import holds_decisions
from regionscope.explorer import explore as write_page
from regionscope.monitor.frames import TrainingFrames, frames_of_partitions

PageOption = Annotated[
    Path | None, options.option("--output -o FILE.html", "HTML file to write; by default named after the source.")
]


def explore(
    what: Annotated[
        list[Path],
        typer.Argument(metavar="PARTITION.npz...", help="Partitions of one slice, saved with Partition.save()."),
    ],
    out: PageOption = None,
    steps: Annotated[
        str | None, options.option("--steps N,N,...", "Training step of each partition; by default 0, 1, 2, ...")
    ] = None,
    class_names: options.ClassNamesOption = None,
) -> None:
    """Write one HTML page that shows the regions of saved partitions and works offline.

    Example: regionscope explore before.npz after.npz --steps 0,1000 -o training.html
    """
    target = page_target(what[0], out)
    names = options.read_class_names(class_names)
    parts = list(zip(_read_steps(steps, len(what)), map(read_partition, what), strict=True))
    write(frames_of_partitions(parts, title=", ".join(path.name for path in what), class_names=names), target)


def page_target(source: Path, out: Path | None) -> Path:
    """The file of --output, or one named after the source; ``InputError`` if it cannot be written."""
    target = Path(f"{source.resolve().name.removesuffix('.npz')}.html") if out is None else out
    if target.suffix not in output.PAGES:
        raise InputError(
            f"Expected an --output file that ends in .html, got {str(target)!r}. "
            "Rename the file, for example to page.html."
        )
    output.check_folder(target)
    return target


def write(training: TrainingFrames, target: Path) -> None:
    """Write the page, and say how large it is."""
    with output.writing_to(target):
        written = write_page(training, target)
    for note in written.notes:
        typer.echo(note, err=True)
    typer.echo(f"wrote {written.path} ({written.size / 1e6:.1f} MB, {written.frames} of {written.of} frames)")


def read_partition(path: Path) -> Partition | DecisionRegions:
    """What ``save`` of a partition or of decision regions wrote."""
    if not path.is_file():
        folder = f"a folder. For a run, use regionscope-lab explore {path}" if path.is_dir() else "nothing"
        raise InputError(f"Expected a saved partition (.npz) at {str(path)!r}, got {folder}. Check the path.")
    if not is_zipfile(path):  # what .npz files are
        raise InputError(
            f"Expected a saved partition (.npz), got {str(path)!r}, which is another file or damaged. "
            "Write one with Partition.save(path)."
        )
    return DecisionRegions.load(path) if holds_decisions(path) else Partition.load(path)


def _read_steps(text: str | None, n: int) -> list[int]:
    """A step for each of n partitions."""
    if text is None:
        return list(range(n))
    if not re.fullmatch(r"\d+(,\d+)*", text) or text.count(",") + 1 != n:
        raise InputError(f"Expected --steps with {n} numbers, one for each partition, got {text!r}. Write 0,100,200.")
    return [int(step) for step in text.split(",")]
