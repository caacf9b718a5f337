"""``regionscope-lab explore``: regions over a training as one HTML page."""

from __future__ import annotations

from regionscope.cli import options
from regionscope.cli.explore import PageOption, page_target, write
from regionscope_lab.cli.frames import MAX_REGIONS, FramesOption, LimitOption, frames_of_folder
from regionscope_lab.cli.options import RowsOption, RunArgument, find_run


def explore(
    run: RunArgument,
    out: PageOption = None,
    rows: RowsOption = None,
    slice_file: options.SliceOption = None,
    frames: FramesOption = None,
    class_names: options.ClassNamesOption = None,
    max_regions: LimitOption = MAX_REGIONS,
) -> None:
    """Write one HTML page that shows the regions at every checkpoint and works offline.

    Example: regionscope-lab explore runs/0123456789abcdef -o moons.html
    """
    run = find_run(run)
    target = page_target(run, out)
    training = frames_of_folder(
        run, rows=rows, slice_file=slice_file, frames=frames,
        class_names=options.read_class_names(class_names), max_regions=max_regions,
    )  # fmt: skip
    write(training, target)
