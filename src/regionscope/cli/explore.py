"""``regionscope explore``: regions over training as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from zipfile import is_zipfile

import typer

from regionscope.cli import load, options, output
from regionscope.cli.frames import MAX_REGIONS, BoxOption, FramesOption, LimitOption, RowsOption, frames_of_folder
from regionscope.errors import InputError
from regionscope.exact import DecisionRegions, Partition
from regionscope.exact.decision import holds_decisions
from regionscope.explorer import explore as write_page
from regionscope_lab.training_frames import frames_of_partition


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
