"""``regionscope explore``: regions over training as one HTML page."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from zipfile import is_zipfile

import typer

from regionscope.cli import load, options, output
from regionscope.cli.running import work_bar
from regionscope.errors import InputError, LimitReached
from regionscope.exact import DecisionRegions, Partition
from regionscope.exact.decision import holds_decisions
from regionscope.explorer import explore as write_page
from regionscope.geometry import Slice
from regionscope.lab.default_slice import plane_of
from regionscope.lab.store import RunFolder
from regionscope.lab.training_frames import TrainingFrames, frames_of_partition, frames_of_run

_SLICE = "Slice of a run"

RowsOption = Annotated[
    str | None, options.option("--rows I,J,K", "Rows of the training points that span the plane.", _SLICE)
]
BoxOption = Annotated[
    tuple[float, float] | None,
    options.option("--box LO HI", "Square [LO, HI]^2, for inputs with two entries.", _SLICE),
]
LimitOption = Annotated[
    int,
    options.option(
        "--max-regions N", "Largest number of regions in a frame; exceeding it is an error.", options.WORK, least=1
    ),
]
MAX_REGIONS = 200_000  # more make a page of tens of megabytes, with frames that are too dense to read
FramesOption = Annotated[int | None, options.option("--frames N", "Largest number of frames.", _SLICE, least=1)]


def explore(
    what: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_OR_PARTITION",
            help="Folder of a run, folder that contains one run, or a saved partition.",
        ),
    ],
    out: Annotated[
        Path | None, options.option("--out FILE.html", "HTML file to write; by default named after the source.")
    ] = None,
    rows: RowsOption = None,
    box: BoxOption = None,
    frames: FramesOption = None,
    class_names: options.ClassNamesOption = None,
    data_root: options.DataRootOption = None,
    max_regions: LimitOption = MAX_REGIONS,
    progress: options.ProgressOption = None,
) -> None:
    """Write one HTML page that shows the regions at every checkpoint and works offline.

    Example: regionscope explore runs/0123456789abcdef --out moons.html
    """
    what = load.find_run(what) if what.is_dir() else what
    target = Path(f"{what.resolve().name.removesuffix('.npz')}.html") if out is None else out
    if target.suffix not in (".html", ".htm"):
        raise InputError(
            f"Expected an --out file that ends in .html, got {str(target)!r}. "
            "Rename the file, for example to page.html."
        )
    output.check_folder(target)
    names = options.read_class_names(class_names)
    if what.is_dir():
        training = frames_of_folder(
            what, rows=rows, box=box, frames=frames, data_root=data_root, class_names=names, max_regions=max_regions,
            progress=progress,
        )  # fmt: skip
    else:
        if rows is not None or box is not None or frames is not None:
            raise InputError(
                f"Expected no --rows, --box or --frames with a saved partition, which has one slice, got {what}. "
                "Leave them out."
            )
        training = frames_of_partition(read_partition(what), title=what.name, class_names=names)
    with output.writing_to(target):
        written = write_page(training, target)
    for note in written.notes:
        typer.echo(note, err=True)
    typer.echo(f"wrote {written.path} ({written.size / 1e6:.1f} MB, {written.frames} of {written.of} frames)")


def frames_of_folder(
    folder: Path, *, rows: str | None, box: tuple[float, float] | None, frames: int | None, data_root: Path | None,
    class_names: Sequence[str] | None, max_regions: int, progress: bool | None,
) -> TrainingFrames:  # fmt: skip
    """The frames of a run, on the slice that the options name."""
    run = RunFolder.open(folder)
    slice = _slice(run, rows, box, data_root)
    try:
        with work_bar("Partitions", progress) as bar:
            return frames_of_run(
                run, slice=slice, frames=frames, data_root=data_root, class_names=class_names, max_regions=max_regions,
                progress=bar,
            )  # fmt: skip
    except LimitReached as limit:
        line = "A line has far fewer regions than a plane: pass --rows with two training points, such as --rows 0,1."
        raise LimitReached(f"{limit} {line}") from limit


def read_partition(path: Path) -> Partition | DecisionRegions:
    """What ``save`` of a partition or of decision regions wrote."""
    if not path.is_file():
        raise InputError(
            f"Expected the folder of a run or a saved partition (.npz), got {str(path)!r}, which does not exist. "
            "Check the path, or create a run with regionscope train."
        )
    if not is_zipfile(path):  # what .npz files are
        raise InputError(
            f"Expected a saved partition (.npz) or the folder of a run, got {str(path)!r}, which is another file or "
            "damaged. Write one with Partition.save(path)."
        )
    return DecisionRegions.load(path) if holds_decisions(path) else Partition.load(path)


def _slice(run: RunFolder, rows: str | None, box: tuple[float, float] | None, data_root: Path | None) -> Slice | None:
    if rows is not None and box is not None:
        raise InputError("Expected --rows or --box, got both. Pass one of them.")
    if rows is not None:
        if not re.fullmatch(r"\d+(,\d+){1,2}", rows):
            raise InputError(
                f"Expected --rows of two or three training points, got {rows!r}. Write numbers such as 0,5,17."
            )
        return plane_of(run.split(data_root).train.inputs, [int(n) for n in rows.split(",")])
    if box is None:
        return None
    shape = tuple(run.split(data_root).input_shape)
    if math.prod(shape) != 2:
        raise InputError(f"Expected inputs with two entries for --box, got shape {shape}. Pass --rows instead.")
    return load.box(*box, shape)
