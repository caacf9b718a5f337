"""The options of commands that show a run over its training, and the frames that they name."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from regionscope.cli import options
from regionscope.cli.running import work_bar
from regionscope.errors import LimitReached
from regionscope.monitor.frames import TrainingFrames
from regionscope_lab.cli.options import slice_of_run
from regionscope_lab.run_frames import frames_of_run
from regionscope_lab.store import RunFolder

LimitOption = Annotated[
    int,
    options.option(
        "--max-regions N", "Largest number of regions in a frame; exceeding it is an error.", options.WORK, least=1
    ),
]
MAX_REGIONS = 200_000  # more make a page of tens of megabytes, with frames that are too dense to read
_LINE = "A line has far fewer regions than a plane: pass --rows with two training points, such as --rows 0,1."
_SOON = 10.0  # seconds after which a plane that is not half done gets advice
FramesOption = Annotated[int | None, options.option("--frames N", "Largest number of frames.", options.SLICE, least=1)]


def frames_of_folder(
    folder: Path, *, rows: str | None, slice_file: Path | None, frames: int | None,
    class_names: Sequence[str] | None, max_regions: int,
) -> TrainingFrames:  # fmt: skip
    """The frames of a run, on the slice that the options name."""
    run = RunFolder.open(folder)
    slice = slice_of_run(run.split(), rows, slice_file)
    start, advised = time.monotonic(), slice is not None and slice.dim == 1

    def report(share: float) -> None:
        nonlocal advised
        bar(share)
        if not advised and share < 0.5 and time.monotonic() - start >= _SOON:
            advised = True
            limit = f"A frame of more than {max_regions:,} regions (--max-regions) is an error, perhaps after minutes."
            typer.echo(f"{limit} {_LINE}", err=True)

    try:
        with work_bar("Partitions") as bar:
            return frames_of_run(
                run, slice=slice, frames=frames, class_names=class_names, max_regions=max_regions, progress=report,
            )  # fmt: skip
    except LimitReached as limit:
        raise LimitReached(f"{limit} {_LINE}") from limit
