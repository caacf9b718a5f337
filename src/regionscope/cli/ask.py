"""``regionscope ask``: exact answers about a network on one slice."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer
from torch import Tensor, nn

from regionscope.checks import one_of
from regionscope.cli import options
from regionscope.cli.job import SliceJob, with_job
from regionscope.errors import InputError
from regionscope.exact import Partition, decision_regions, linear_regions
from regionscope.exact.questions.flips import flips_of
from regionscope.exact.questions.output_weights import output_weights
from regionscope.formatting import counted, either
from regionscope.geometry import Slice
from regionscope.network import trace

_SHOWN = 20  # flips or folds in the table; the JSON has all of them
_FEW_INPUTS = 6  # numbers of an input that the table shows
_OF = {  # the questions that an option is for
    "--index": ("extremes", "lipschitz"),
    "--minus": ("extremes", "lipschitz"),
    "--norm": ("lipschitz",),
    "--class-names": ("flips", "topology"),
}
QuestionArgument = Annotated[
    Literal["extremes", "lipschitz", "flips", "folds", "topology"],
    typer.Argument(metavar="QUESTION", help="Question: extremes, lipschitz, flips, folds or topology."),
]
IndexOption = Annotated[
    int | None, options.option("--index I", "Index of the output value.", options.QUANTITY, least=0)
]
MinusOption = Annotated[
    int | None, options.option("--minus J", "Index of an output value to subtract.", options.QUANTITY, least=0)
]
NormOption = Annotated[
    str | None, options.option("--norm P", "Norm of inputs and outputs: 1, 2 (default) or inf.", options.QUANTITY)
]


@with_job
def ask(
    job: SliceJob, question: QuestionArgument, index: IndexOption = None, minus: MinusOption = None,
    norm: NormOption = None, class_names: options.ClassNamesOption = None,
) -> None:  # fmt: skip
    """Answer a question about a network on a slice, exactly.

    extremes: the smallest and the largest value of an output (--index), or of the difference of two (--minus).

    lipschitz: the Lipschitz constant of an output, or of all together: a lower bound for the whole input space.

    flips: every point of a segment where the predicted class changes, with the slope of the margin per unit of length.
    The points of --points have slice coordinates 0 and 1.

    folds: every unit that folds on a segment, in order, with its layer and its index there.

    topology: the components and holes of each class on a plane, and the length of its boundary.

    Example: regionscope ask extremes --model net.py:build --box -1 1 --index 0 --minus 1 -o extremes.png
    """
    given = {"--index": index, "--minus": minus, "--norm": norm, "--class-names": class_names}
    for option, value in given.items():
        if value is not None and question not in _OF[option]:
            raise InputError(f"Expected {option} with {either(_OF[option])}, got {question}. Leave {option} out.")
    if question == "extremes":
        _extremes(job, index, minus)
    elif question == "lipschitz":
        _lipschitz(job, norm or "2", index, minus)
    elif question == "flips":
        _flips(job, class_names)
    elif question == "folds":
        _folds(job)
    else:
        _topology(job, class_names)


def _extremes(job: SliceJob, index: int | None, minus: int | None) -> None:
    network, where = job.start()
    target = chosen_output(index, minus, network, where)
    part = job.cut(linear_regions, network, where)
    extremes = part.extremes(target)
    rows: dict[str, float] = {}
    for name, value, coords, point in (
        ("smallest value", extremes.min, extremes.coords_of_min, extremes.argmin),
        ("largest value", extremes.max, extremes.coords_of_max, extremes.argmax),
    ):
        inputs = f", input {_numbers(point)}" if point.numel() <= _FEW_INPUTS else ""
        rows[f"{name}, at slice coordinates {_numbers(coords)}{inputs}"] = value
    numbers = {
        "min": extremes.min,
        "max": extremes.max,
        "argmin": extremes.argmin.tolist(),
        "argmax": extremes.argmax.tolist(),
        "coords_of_min": extremes.coords_of_min.tolist(),
        "coords_of_max": extremes.coords_of_max.tolist(),
    }
    _report(job, part, rows, numbers)
    job.draw("extremes_figure", part, extremes)


def _lipschitz(job: SliceJob, norm: str, index: int | None, minus: int | None) -> None:
    one_of("--norm", norm, ("1", "2", "inf"))
    network, where = job.start()
    target = None if index is None and minus is None else chosen_output(index, minus, network, where)
    part = job.cut(linear_regions, network, where)
    lipschitz = part.lipschitz(norm=math.inf if norm == "inf" else int(norm), target=target)
    numbers = {
        "lipschitz": lipschitz.value,
        "norm": norm,
        "point": lipschitz.point.tolist(),
        "coords": lipschitz.coords.tolist(),
    }
    _report(job, part, {f"Lipschitz constant, norm {norm}": lipschitz.value}, numbers)
    job.draw("lipschitz_figure", part, lipschitz)


def _flips(job: SliceJob, class_names: str | None) -> None:
    network, where = job.start(dim=1, what="flips")
    names = job.class_names(class_names, network, where)
    dec = job.cut(decision_regions, network, where)
    flips = flips_of(dec)
    rows = zip(*(column.tolist() for column in (flips.coords, flips.before, flips.after, flips.slope)), strict=True)
    listed = [{"coord": coord, "before": a, "after": b, "slope": slope} for coord, a, b, slope in rows]
    table: dict[str, float] = {"flips": len(flips)}
    for flip in listed[:_SHOWN]:
        before, after = (str(i) if names is None else f"{i} ({names[i]})" for i in (flip["before"], flip["after"]))
        table[f"from {before} to {after} at slice coordinate {flip['coord']:.6g}, slope"] = flip["slope"]
    _report(job, dec.partition, table, {"flips": listed, "class_names": names})
    job.draw("flips_figure", dec, flips, class_names=names)


def _folds(job: SliceJob) -> None:
    network, where = job.start(dim=1, what="folds")
    part = job.cut(linear_regions, network, where)
    units = part.wall_units()
    listed = [
        {"coord": coord, "layer": layer, "unit": unit}
        for coord, (layer, unit) in zip(units.coords[:, 0].tolist(), units, strict=True)
    ]
    table: dict[str, float] = {"folds": len(units)}
    for fold in listed[:_SHOWN]:
        table[f"unit {fold['unit']} of {fold['layer']}, at slice coordinate"] = fold["coord"]
    _report(job, part, table, {"folds": listed})
    job.draw("neurons_figure", part)


def _topology(job: SliceJob, class_names: str | None) -> None:
    network, where = job.start(dim=2, what="topology")
    names = job.class_names(class_names, network, where)
    dec = job.cut(decision_regions, network, where)
    topology, volumes = dec.topology(), dec.volumes()
    rows: dict[str, float] = {}
    for label, shape in topology.items():
        called = f"class {label}" if names is None else f"class {label} ({names[label]})"
        rows |= {
            f"{called}: components": shape.components,
            f"{called}: holes": shape.holes,
            f"{called}: boundary length": shape.boundary_length,
            f"{called}: area": volumes[label],
        }
    numbers = {
        "classes": {
            label: asdict(shape) | {"euler": shape.euler, "area": volumes[label]} for label, shape in topology.items()
        },
        "decision_regions": dec.count,
        "class_names": names,
    }
    _report(job, dec.partition, rows, numbers)
    job.draw("topology_figure", dec, topology, class_names=names)


def _numbers(point: Tensor) -> str:
    """A point as text, such as (0.5, -1)."""
    return f"({', '.join(f'{number:.6g}' for number in point.flatten().tolist())})"


def chosen_output(
    index: int | None, minus: int | None, network: nn.Module, where: Slice, *, otherwise: str = ""
) -> int | tuple[int, int] | None:
    """The target of --index and --minus; None for the only output. Raises ``InputError`` if there is none.

    otherwise: sentence on what else the command takes.
    """
    c = trace(network, where.input_shape).n_outputs
    if index is None and (c > 1 or minus is not None):
        raise InputError(
            f"Expected --index I for a network with {counted(c, 'output')}, got none. Pass --index I for one output, "
            f"or --index I --minus J for the difference of two.{otherwise and ' ' + otherwise}"
        )
    target = index if index is None or minus is None else (index, minus)
    output_weights(target, 1, c)
    return target


def _report(job: SliceJob, part: Partition, rows: dict[str, float], numbers: dict[str, Any]) -> None:
    job.report(part, rows, {**numbers, "regions": len(part)}, more=f", {counted(len(part), 'region')}")
