"""The options that several commands share, and how their text is read."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from regionscope import checks
from regionscope.errors import InputError
from regionscope.lab.load import LARGEST_BOX

_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}


WORK = "Working"
ROWS = "the rows of FILE.npy, .csv, .npz or .pt; FILE.npz:KEY or FILE.pt:KEY names one of several arrays"
NETWORK, SLICE, OUTPUT = "Network", "Slice (--points, --box or --vary)", "Output"


def option(
    *names: str, help: str, panel: str | None = None, metavar: str | None = None, least: float | None = None,
    complete: Callable[[], Iterable[str]] | None = None,
) -> Any:  # fmt: skip
    """An option of a command, under the heading ``panel`` of its help.

    least: the smallest number it takes. complete: the words that the shell offers.
    """
    return typer.Option(*names, metavar=metavar, min=least, rich_help_panel=panel, help=help, autocompletion=complete)


ModelOption = Annotated[
    str,
    option(
        "--model",
        metavar="WHERE:NAME",
        panel=NETWORK,
        help="Function that builds the network, pkg.module:factory or file.py:factory (its code is run), or an .onnx "
        "or .onnx.gz file.",
    ),
]
OwnModelOption = Annotated[
    str | None,
    option(
        "--model",
        metavar="FILE.py:FUNCTION",
        panel="What to train",
        help="Function that returns your network; it gets classes and input_shape if it has such parameters.",
    ),
]
DATA_HELP = "Data set of `regionscope data list`, or your own: .npz with x and y, ./FOLDER of images, FILE.py:FUNCTION."
OutputOption = Annotated[
    str | None,
    option(
        "--output",
        metavar="NAME",
        panel=NETWORK,
        help="Output to use if the network has several: a name, such as logits, or an index from 0.",
    ),
]
WeightsOption = Annotated[
    Path | None,
    option(
        "--weights",
        metavar="FILE",
        panel=NETWORK,
        help="File with its weights: .safetensors, or torch.save of a state dict.",
    ),
]
ShapeOption = Annotated[
    str | None,
    option(
        "--input-shape",
        metavar="SHAPE",
        panel=NETWORK,
        help="Shape of one input, such as 3,32,32, if points are flat or --box cannot infer it.",
    ),
]
PointsOption = Annotated[
    Path | None,
    option(
        "--points",
        metavar="FILE",
        panel=SLICE,
        help=f"Corners of the slice (2 for a segment, 3 for a triangle): {ROWS}.",
    ),
]
BoxOption = Annotated[
    tuple[float, float] | None,
    option(
        "--box",
        metavar="LO HI",
        panel=SLICE,
        help=f"Box of all inputs with entries in [LO, HI], for up to {LARGEST_BOX} entries.",
    ),
]
VaryOption = Annotated[
    tuple[int, int] | None,
    option("--vary", metavar="I J", panel=SLICE, help="Plane of inputs I and J (from 0); see --range and --at."),
]
RangeOption = Annotated[
    str | None, option("--range", metavar="I=LO:HI,J=LO:HI", panel=SLICE, help="Ranges of the inputs of --vary.")
]
AtOption = Annotated[str | None, option("--at", metavar="K=VALUE,...", panel=SLICE, help="Values of all other inputs.")]
ScalingOption = Annotated[
    str | None,
    option(
        "--scaling",
        metavar="K=OFFSET:UNIT,...",
        panel=SLICE,
        help="Units of --range and --at: input K of the network is (value - OFFSET) / UNIT.",
    ),
]
LowestOption = Annotated[
    bool,
    option(
        "--lowest",
        panel="Question",
        help="Label a point by its smallest output, for networks whose outputs are costs.",
    ),
]
JsonOption = Annotated[
    str | None,
    option("--json", metavar="FILE", panel=OUTPUT, help="JSON file to write; - writes to stdout instead of the table."),
]
PlotOption = Annotated[
    Path | None,
    option(
        "--plot",
        metavar="FILE",
        panel=OUTPUT,
        help="Figure to write (.png, .pdf, .svg); regions need a slice of dimension 1 or 2.",
    ),
]
MemoryOption = Annotated[
    str | None,
    option(
        "--memory",
        metavar="SIZE",
        panel=WORK,
        help="Limit of the working memory, such as 512MiB; by default 2GiB, on a GPU half of the free memory.",
    ),
]
DeviceOption = Annotated[str, option("--device", panel=WORK, help="Device: cpu, cuda, cuda:1 or mps.")]
DataRootOption = Annotated[
    Path | None,
    option("--data-root", metavar="DIR", panel=WORK, help="Data folder; by default $REGIONSCOPE_DATA, else ./data."),
]
RunsOption = Annotated[
    Path, option("--runs", metavar="DIR", panel="Where", help="Folder of the runs; each run has its own folder in it.")
]
LimitOption = Annotated[
    int | None,
    option("--max-regions", metavar="N", least=1, panel=WORK, help="Largest number of regions; more raise an error."),
]
CertifyOption = Annotated[
    bool,
    option(
        "--certify", panel=WORK, help="Prove the counts with error bounds and integers; exit code 1 if they are wrong."
    ),
]
DaskOption = Annotated[
    str | None,
    option("--dask", metavar="ADDRESS", panel=WORK, help="Dask cluster: tcp://host:8786 or local:4."),
]
CountOnlyOption = Annotated[
    bool,
    option(
        "--count-only",
        panel=WORK,
        help="Count the activation regions of a line or a plane without holding them, for tens of millions of regions.",
    ),
]


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """The default of each parameter of an instrument, so that a command repeats none of them."""
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}


def read_shape(text: str | None) -> tuple[int, ...] | None:
    """The shape that ``text`` spells; None where nothing came.

    >>> read_shape("3,32,32")
    (3, 32, 32)
    """
    if text is None:
        return None
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
        raise InputError(f"Expected --input-shape such as 2 or 3,32,32, got {text!r}.")
    return tuple(int(n) for n in text.split(","))


def read_output(text: str | None) -> str | int | None:
    """The name or the index that ``text`` spells.

    >>> read_output("logits"), read_output("-1")
    ('logits', -1)
    """
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else text


def read_memory(text: str | None) -> int | None:
    """The number of bytes that ``text`` spells; None, the default of each instrument, where nothing came.

    >>> read_memory("2GiB") == 2 * 1024**3
    True
    """
    if text is None:
        return None
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if parts is None or parts[2] not in _UNITS or float(parts[1]) == 0:
        raise InputError(f"Expected --memory such as 512MiB or 2GiB, got {text!r}.")
    return int(float(parts[1]) * _UNITS[parts[2]])


def read_device(name: str) -> torch.device:
    """The device of this name, if this machine has it."""
    return checks.read_device(name, what="--device")
