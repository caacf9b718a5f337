"""The options of commands that show a run over its training, and the frames that they name."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from regionscope.cli import load, options
from regionscope.cli.running import work_bar
from regionscope.default_slice import plane_of
from regionscope.errors import InputError, LimitReached
from regionscope.geometry import Slice
from regionscope.monitor.frames import TrainingFrames
from regionscope_lab.run_frames import frames_of_run
from regionscope_lab.store import RunFolder

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
_LINE = "A line has far fewer regions than a plane: pass --rows with two training points, such as --rows 0,1."
_SOON = 10.0  # seconds after which a plane that is not half done gets advice
FramesOption = Annotated[int | None, options.option("--frames N", "Largest number of frames.", _SLICE, least=1)]


def frames_of_folder(
    folder: Path, *, rows: str | None, box: tuple[float, float] | None, frames: int | None, data_root: Path | None,
    class_names: Sequence[str] | None, max_regions: int, progress: bool | None,
) -> TrainingFrames:  # fmt: skip
    """The frames of a run, on the slice that the options name."""
    run = RunFolder.open(folder)
    slice = _slice(run, rows, box, data_root)
    start, advised = time.monotonic(), slice is not None and slice.dim == 1

    def report(share: float) -> None:
        nonlocal advised
        bar(share)
        if not advised and share < 0.5 and time.monotonic() - start >= _SOON:
            advised = True
            limit = f"A frame of more than {max_regions:,} regions (--max-regions) is an error, perhaps after minutes."
            typer.echo(f"{limit} {_LINE}", err=True)

    try:
        with work_bar("Partitions", progress) as bar:
            return frames_of_run(
                run, slice=slice, frames=frames, data_root=data_root, class_names=class_names, max_regions=max_regions,
                progress=report,
            )  # fmt: skip
    except LimitReached as limit:
        raise LimitReached(f"{limit} {_LINE}") from limit


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
