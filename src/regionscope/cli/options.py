"""The options that several commands share, and functions that read their values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from regionscope import checks
from regionscope.cli.load import LARGEST_BOX
from regionscope.errors import InputError

WORK = "Execution"
ROWS = "the rows of FILE.npy, .csv, .npz or .pt; FILE.npz:KEY or FILE.pt:KEY names one of several arrays"
QUANTITY, NETWORK, SLICE, OUTPUT = "Quantity", "Network", "Slice", "Output"


def option(
    spec: str, help: str, panel: str | None = None, *, least: float | None = None,
    complete: Callable[[], Iterable[str]] | None = None,
) -> Any:  # fmt: skip
    """An option of a command, such as ``"--memory SIZE"``, under the heading ``panel`` of its help.

    least: the smallest number it takes. complete: the words that the shell offers.
    """
    names = [word for word in spec.split() if word.startswith("-")]
    metavar = " ".join(word for word in spec.split() if not word.startswith("-"))
    return typer.Option(
        *names, metavar=metavar or None, min=least, rich_help_panel=panel, help=help, autocompletion=complete
    )


ModelOption = Annotated[
    str | None,
    option(
        "--model WHERE:NAME",
        "Function that builds the network, pkg.module:factory or file.py:factory (its code is run), or an .onnx "
        "or .onnx.gz file.",
        NETWORK,
    ),
]
HeadOption = Annotated[
    str | None,
    option(
        "--head NAME",
        "Output to use if the network has several: a name, such as logits, or an index from 0.",
        NETWORK,
    ),
]
WeightsOption = Annotated[
    Path | None,
    option(
        "--weights FILE",
        "File with the weights: .safetensors, or a state dict or checkpoint saved with torch.save.",
        NETWORK,
    ),
]
ShapeOption = Annotated[
    str | None,
    option(
        "--input-shape SHAPE",
        "Shape of one input, such as 3,32,32, if points are flat or --box cannot infer it.",
        NETWORK,
    ),
]
PointsOption = Annotated[
    Path | None, option("--points FILE", f"Corners of the slice (2 for a segment, 3 for a triangle): {ROWS}.", SLICE)
]
BoxOption = Annotated[
    tuple[float, float] | None,
    option("--box LO HI", f"Box of all inputs with entries in [LO, HI], for up to {LARGEST_BOX} entries.", SLICE),
]
PlaneOption = Annotated[
    str | None,
    option(
        "--plane I=LO:HI,J=LO:HI,K=VALUE,...",
        "Plane of the inputs I and J (from 0); all others have the value after their number, or that of --at.",
        SLICE,
    ),
]
AtOption = Annotated[
    Path | None, option("--at FILE", "One input, for the values of all inputs that --plane does not name.", SLICE)
]
SliceOption = Annotated[
    Path | None,
    option("--slice FILE.toml", "File that holds points, a box, or a plane with the units of its inputs.", SLICE),
]
LowestOption = Annotated[
    bool, option("--lowest", "Label a point by its smallest output, for networks whose outputs are costs.", QUANTITY)
]
SmoothOption = Annotated[
    bool,
    option(
        "--smooth",
        "Prove labels and their number for a network with smooth activations, such as GELU; some of the slice stays "
        "undecided.",
        QUANTITY,
    ),
]
UndecidedOption = Annotated[
    float | None,
    option("--undecided SHARE", "Share of the slice that --smooth may leave undecided; 0.01 by default.", QUANTITY),
]
ClassNamesOption = Annotated[
    str | None,
    option(
        "--class-names A,B,...",
        "Names of all classes, in the order of the labels, separated by commas; by default the numbers of the "
        "classes, or the names that the data have.",
        OUTPUT,
    ),
]
JsonOption = Annotated[bool, option("--json", "Print the result as JSON instead of a table.", OUTPUT)]
OutputOption = Annotated[
    list[Path] | None,
    option("--output -o FILE", "File to write: .json, or a figure (.png, .pdf, .svg); can be repeated.", OUTPUT),
]
DeviceOption = Annotated[str, option("--device", "Device: cpu, cuda, cuda:1 or mps.", WORK)]
MANY_REGIONS = 20_000  # about a minute of cutting in 4 to 6 dimensions
LimitOption = Annotated[
    int | None,
    option(
        "--max-regions N",
        "Largest number of regions; exceeding it is an error. "
        f"By default there is no limit up to three dimensions, and one of {MANY_REGIONS:,} beyond.",
        WORK,
        least=1,
    ),
]
CertifyOption = Annotated[
    bool, option("--certify", "Prove the counts with integer arithmetic; exit with code 1 if they are wrong.", WORK)
]
DaskOption = Annotated[str | None, option("--dask ADDRESS", "Dask cluster: tcp://host:8786 or local:4.", WORK)]
CountOnlyOption = Annotated[
    bool,
    option(
        "--count-only",
        "Count the activation regions of a line or a plane without storing them, for tens of millions of regions.",
        WORK,
    ),
]


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """The default of each parameter of an instrument, so that a command repeats none of them."""
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}


def read_shape(text: str | None) -> tuple[int, ...] | None:
    """Read a shape; None without text.

    >>> read_shape("3,32,32")
    (3, 32, 32)
    """
    if text is None:
        return None
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
        raise InputError(
            f"Expected --input-shape such as 2 or 3,32,32, got {text!r}. Separate the sizes of one input by commas."
        )
    return tuple(int(n) for n in text.split(","))


def read_head(text: str | None) -> str | int | None:
    """Read the name or the index of an output.

    >>> read_head("logits"), read_head("-1")
    ('logits', -1)
    """
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else text


def read_class_names(text: str | None) -> list[str] | None:
    """Read names separated by commas; None without text.

    >>> read_class_names("cat, dog")
    ['cat', 'dog']
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InputError(
            f"Expected --class-names such as cat,dog, got {text!r}. Write one name for each class, separated by commas."
        )
    return names


def read_device(name: str) -> torch.device:
    """The device of this name, if this machine has it."""
    return checks.read_device(name, what="--device")
