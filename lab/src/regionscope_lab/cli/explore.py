"""``regionscope-lab explore``: regions over a training as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regionscope.cli import options
from regionscope.cli.explore import PageOption, page_target, write
from regionscope_lab.cli.frames import MAX_REGIONS, BoxOption, FramesOption, LimitOption, RowsOption, frames_of_folder
from regionscope_lab.cli.options import DataRootOption, find_run


def explore(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run with checkpoints, or folder that contains one run.")
    ],
    out: PageOption = None,
    rows: RowsOption = None,
    box: BoxOption = None,
    frames: FramesOption = None,
    class_names: options.ClassNamesOption = None,
    data_root: DataRootOption = None,
    max_regions: LimitOption = MAX_REGIONS,
    progress: options.ProgressOption = None,
) -> None:
    """Write one HTML page that shows the regions at every checkpoint and works offline.

    Example: regionscope-lab explore runs/0123456789abcdef -o moons.html
    """
    run = find_run(run)
    target = page_target(run, out)
    training = frames_of_folder(
        run, rows=rows, box=box, frames=frames, data_root=data_root,
        class_names=options.read_class_names(class_names), max_regions=max_regions, progress=progress,
    )  # fmt: skip
    write(training, target)
