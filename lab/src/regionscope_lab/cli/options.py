"""The options that several commands of the lab share, and the runs that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from regionscope.cli.options import NETWORK, WORK, option
from regionscope.errors import InputError

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
RunOption = Annotated[
    Path, option("--run DIR", "Folder of a run: its network, on the data that it was trained on.", NETWORK)
]
StepOption = Annotated[
    int | None,
    option("--step N", "Training step of the stored weights of --run; by default the last.", NETWORK, least=0),
]
DataRootOption = Annotated[
    Path | None, option("--data-root DIR", "Data folder; by default $REGIONSCOPE_DATA, else ./data.", WORK)
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
