"""``regionscope-lab animate``: regions over training as a GIF or MP4 file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from regionscope.cli import options, output
from regionscope.cli.running import work_bar
from regionscope.errors import InputError
from regionscope.formatting import counted
from regionscope_lab import animation
from regionscope_lab.cli.frames import MAX_REGIONS, FramesOption, LimitOption, frames_of_folder
from regionscope_lab.cli.options import RowsOption, RunArgument, find_run


def animate(
    run: RunArgument,
    out: Annotated[
        Path | None,
        options.option("--output -o FILE", "File to write, .gif or .mp4; by default a GIF named after the run."),
    ] = None,
    kind: Annotated[Literal["linear", "decision", "neurons"], options.option("--kind", "Kind of figure.")] = "linear",
    rows: RowsOption = None,
    slice_file: options.SliceOption = None,
    frames: FramesOption = None,
    class_names: options.ClassNamesOption = None,
    max_regions: LimitOption = MAX_REGIONS,
) -> None:
    """Animate the regions over training, one frame for each checkpoint of a run.

    Example: regionscope-lab animate runs/0123456789abcdef -o moons.gif --kind decision
    """
    run = find_run(run)
    target = Path(f"{run.resolve().name}.gif") if out is None else out
    output.check_folder(target)
    animation.check_animation(target, kind=kind)
    names = options.read_class_names(class_names)
    if names is not None and kind != "decision":
        raise InputError(
            f"Expected --kind decision with --class-names, got --kind {kind}, whose figure names no class. "
            "Change --kind, or leave --class-names out."
        )
    training = frames_of_folder(
        run, rows=rows, slice_file=slice_file, frames=frames, class_names=names, max_regions=max_regions,
    )  # fmt: skip
    with output.writing_to(target), work_bar("Frames") as bar:
        animation.animate(training, target, kind=kind, progress=bar)
    for note in training.notes:
        typer.echo(note, err=True)
    n_bytes = target.stat().st_size
    written = f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:.0f} kB"
    typer.echo(f"wrote {target} ({written}, {counted(len(training.frames), 'frame')})")
