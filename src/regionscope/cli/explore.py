"""``regionscope explore``: regions over training as one HTML page."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated

import typer

from regionscope.cli import options, output
from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, Partition
from regionscope.exact.decision import holds_decisions
from regionscope.explorer import explore as write_page
from regionscope.geometry import Slice
from regionscope.lab import load
from regionscope.lab.default_slice import plane_of
from regionscope.lab.store import RunFolder
from regionscope.lab.training_frames import TrainingFrames, frames_of_partition, frames_of_run

__all__ = ["BoxOption", "FramesOption", "PointsOption", "explore", "find_run", "frames_of_folder"]

_SLICE = "Slice of a run"
_CONFIG = "config.json"  # what makes a folder a run

PointsOption = Annotated[
    str | None,
    typer.Option(
        "--points", metavar="I,J,K", rich_help_panel=_SLICE, help="The plane through these training points (from 0)."
    ),
]
BoxOption = Annotated[
    tuple[float, float] | None,
    typer.Option("--box", metavar="LO HI", rich_help_panel=_SLICE, help="[LO, HI]^2, for inputs of two numbers."),
]
FramesOption = Annotated[
    int | None, typer.Option("--frames", metavar="N", min=1, rich_help_panel=_SLICE, help="Largest number of frames.")
]


def explore(
    what: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_OR_PARTITION",
            help="Folder of a run (or the folder that holds just one), or a saved partition.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="The page; by default named after the source.")
    ] = None,
    points: PointsOption = None,
    box: BoxOption = None,
    frames: FramesOption = None,
    data_root: options.DataRootOption = None,
) -> None:
    """Write one HTML page that shows the regions at every checkpoint; it works offline and can be mailed.

    Example: regionscope explore runs/0123456789abcdef --out moons.html
    """
    what = find_run(what) if what.is_dir() else what
    target = Path(f"{what.resolve().name.removesuffix('.npz')}.html") if out is None else out
    if target.suffix not in (".html", ".htm"):
        raise InputError(f"Expected an --out file that ends in .html, got {str(target)!r}.")
    output.check_folder(target)
    if what.is_dir():
        training = frames_of_folder(what, points=points, box=box, frames=frames, data_root=data_root)
    else:
        if points is not None or box is not None or frames is not None:
            raise InputError("--points, --box and --frames are for runs; a saved partition has one slice already.")
        training = frames_of_partition(read_partition(what), title=what.name)
    with output.writing_to(target):
        written = write_page(training, target)
    for note in written.notes:
        typer.echo(note, err=True)
    typer.echo(f"wrote {written.path} ({written.size / 1e6:.1f} MB, {written.frames} of {written.of} frames)")


def find_run(folder: Path) -> Path:
    """The folder itself where it is a run, or the only run in it."""
    if not folder.is_dir():
        raise InputError(f"There is no folder {str(folder)!r}; give the folder of a run, which holds its config.json.")
    if (folder / _CONFIG).exists():
        return folder
    inside = sorted(path.parent for path in folder.glob(f"*/{_CONFIG}"))
    if len(inside) > 1:
        raise InputError(
            f"{str(folder)!r} holds {len(inside)} runs; give the folder of one of them, such as {str(inside[0])!r}."
        )
    return inside[0] if inside else folder  # opening it says what a run is


def frames_of_folder(
    folder: Path, *, points: str | None, box: tuple[float, float] | None, frames: int | None, data_root: Path | None
) -> TrainingFrames:
    """The frames of a run, on the slice that the options name."""
    run = RunFolder.open(folder)
    where = _slice(run, points, box, data_root)
    with output.progress_bar("Partitions") as progress:
        return frames_of_run(run, where=where, frames=frames, data_root=data_root, progress=progress)


def read_partition(path: Path) -> Partition | DecisionRegions:
    """What ``save`` of a partition or of decision regions wrote."""
    if not path.is_file():
        raise InputError(f"There is nothing at {str(path)!r}; give the folder of a run or a saved partition (.npz).")
    return DecisionRegions.load(path) if holds_decisions(path) else Partition.load(path)


def _slice(run: RunFolder, points: str | None, box: tuple[float, float] | None, data_root: Path | None) -> Slice | None:
    if points is not None and box is not None:
        raise InputError("--points and --box came together; give one of them.")
    if points is not None:
        if not re.fullmatch(r"\d+(,\d+){1,2}", points):
            raise InputError(f"Expected --points of three training points, such as 0,5,17, got {points!r}.")
        return plane_of(run.split(data_root).train.inputs, [int(n) for n in points.split(",")])
    if box is None:
        return None
    shape = tuple(run.split(data_root).input_shape)
    if math.prod(shape) != 2:
        raise InputError(f"--box is for inputs of two numbers, and these have shape {shape}; give --points.")
    return load.box(*box, shape)
