"""The options that several commands of the lab share, and the runs that they name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from regionscope.cli.options import NETWORK, SLICE, WORK, option
from regionscope.cli.slice_file import read_slice_file
from regionscope.default_slice import plane_of
from regionscope.errors import InputError
from regionscope.geometry import Slice
from regionscope_lab.data import DataSplit

_CONFIG = "config.json"  # what makes a folder a run
EXPERIMENT = "Experiment"

OwnModelOption = Annotated[
    str | None,
    option(
        "--model FILE.py:FUNCTION",
        "Function that returns your network; called with classes and input_shape if it has these parameters.",
        EXPERIMENT,
    ),
]
DATA_HELP = (
    "Data set from `regionscope-lab data list`, or your own: an .npz file with x and y, a .csv file with labels in the "
    "last column, ./FOLDER of images, or FILE.py:FUNCTION."
)
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="Folder of a run, or folder that contains one run.", show_default=False)
]
ProgressOption = Annotated[
    bool | None,
    option(
        "--progress/--no-progress",
        "Whether to show a progress bar (lines if there is no terminal); by default on a terminal.",
        WORK,
    ),
]
StepOption = Annotated[
    int | None, option("--step N", "Training step of the stored weights; by default the last.", NETWORK, least=0)
]
RowsOption = Annotated[
    str | None,
    option("--rows I,J,K", "Rows of the training points that span the plane (two for a line).", SLICE),
]
RunsOption = Annotated[Path, option("--runs DIR", "Folder of the runs; each run has its own folder in it.", "Storage")]


def find_run(folder: Path) -> Path:
    """The folder itself if it is a run, else the only run in it."""
    if not folder.is_dir():
        raise InputError(
            f"Expected the folder of a run, with a config.json, got {str(folder)!r}, which does not exist. "
            "Pass a folder that regionscope-lab train or sweep run created."
        )
    if (folder / _CONFIG).exists():
        return folder
    inside = sorted(path.parent for path in folder.glob(f"*/{_CONFIG}"))
    if len(inside) > 1:
        raise InputError(
            f"Expected one run in {str(folder)!r}, got {len(inside)}. Pass the folder of one of them, such as "
            f"{str(inside[0])!r}."
        )
    return inside[0] if inside else folder  # opening it says what a run is


def slice_of_run(split: DataSplit, rows: str | None, slice_file: Path | None) -> Slice | None:
    """The slice that --rows or --slice names; None if neither is given."""
    if rows is not None and slice_file is not None:
        raise InputError("Expected --rows or --slice, got both. Pass one of them.")
    if rows is not None:
        if not re.fullmatch(r"\d+(,\d+){1,2}", rows):
            raise InputError(
                f"Expected --rows of two or three training points, got {rows!r}. Write numbers such as 0,5,17."
            )
        return plane_of(split.train.inputs, [int(n) for n in rows.split(",")])
    shape = tuple(split.input_shape)
    return None if slice_file is None else read_slice_file(slice_file).slice(lambda: shape, shape)
