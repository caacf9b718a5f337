"""``regionscope level-set``: the exact level set or decision boundary of a network, as a mesh."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from regionscope import exact
from regionscope.cli import options, output
from regionscope.cli.ask import IndexOption, MinusOption, chosen_output
from regionscope.cli.job import SliceJob, with_job
from regionscope.errors import InputError
from regionscope.exact import LevelSet
from regionscope.exact.surfaces.files import MESH_FILES
from regionscope.explorer import explore as write_page

_SURFACE = "Surface"
ValueOption = Annotated[float, options.option("--value V", "Level of the output.", _SURFACE)]
ClassesOption = Annotated[
    str | None,
    options.option(
        "--classes A,B",
        "Classes whose decision boundary to compute instead of a level: A and B, or A and all others.",
        _SURFACE,
    ),
]
MeshOption = Annotated[
    list[Path] | None,
    options.option(
        "--output -o FILE",
        f"File to write: a mesh ({', '.join(MESH_FILES)}), .json, a figure (.png, .pdf, .svg), or a page with a "
        "surface that you can turn (.html); can be repeated.",
        options.OUTPUT,
    ),
]


@dataclass(frozen=True, kw_only=True)
class LevelSetJob(SliceJob):
    """A network on one slice, with meshes and pages to write."""

    files: MeshOption = None
    endings: ClassVar[tuple[str, ...]] = (*MESH_FILES, *SliceJob.endings, *output.PAGES)


@with_job
def level_set(
    job: LevelSetJob, value: ValueOption = 0.0, index: IndexOption = None, minus: MinusOption = None,
    classes: ClassesOption = None,
) -> None:  # fmt: skip
    """Compute where an output equals a value, or where two classes meet: exact curves in 2-D, an exact mesh in 3-D.

    Example: regionscope level-set --model sdf.py:build --box -1 1 -o mesh.ply -o mesh.png -o mesh.html
    """
    network = job.network()
    slice = job.slice(network)
    job.check_targets(min(slice.dim, 2))  # a surface in space is drawn, too
    _check_files(job, slice.dim)
    between = _read_classes(classes)
    if between is not None and (index is not None or minus is not None):
        raise InputError("Expected --classes or --index, got both. Pass one of them.")
    target = None
    if between is None:
        border = "Pass --classes I,J for the boundary between two classes."
        target = chosen_output(index, minus, network, slice, otherwise=border)
    surface = job.cut(exact.level_set, network, slice, value=value, target=target, classes=between)
    _report(job, surface)
    for path in job.named(tuple(MESH_FILES)):
        with output.writing_to(path):
            surface.save(path, inputs=slice.origin.numel() == slice.dim)
        typer.echo(f"wrote {path}", err=True)
    job.draw("level_set_figure", surface)
    for path in job.named(output.PAGES):
        with output.writing_to(path):
            write_page(surface, path)
        typer.echo(f"wrote {path}", err=True)


def _check_files(job: LevelSetJob, dim: int) -> None:
    """Raise ``InputError`` for a file that needs a slice of dimension 3."""
    if dim != 3 and job.named(output.PAGES):
        raise InputError(f"Expected a slice of dimension 3 for an .html page, got {dim}. Write a figure, such as .png.")
    if dim != 3 and job.named((".stl",)):
        raise InputError(f"Expected a slice of dimension 3 for an .stl file, got {dim}. Write .ply.")


def _read_classes(text: str | None) -> list[int] | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d+(,\d+)?", text):
        raise InputError(
            f"Expected --classes such as 3 or 3,5, got {text!r}. "
            "Pass the numbers of classes, counted from 0 and separated by commas."
        )
    return [int(n) for n in text.split(",")]


def _report(job: SliceJob, surface: LevelSet) -> None:
    rows: dict[str, float] = {
        "segments" if surface.dim == 2 else "faces": len(surface),
        "vertices": len(surface.vertices),
        "length" if surface.dim == 2 else "area": surface.area,
        "Euler characteristic": surface.euler,
        "connected components": surface.n_components,
        "ends on the border" if surface.dim == 2 else "edges on the border": len(surface.boundary_edges),
        "edges and vertices that are not manifold": surface.n_nonmanifold,
        "regions on which the level is taken everywhere": len(surface.flat),
    }
    numbers = {
        "value": surface.value, "classes": surface.classes, "faces": len(surface), "vertices": len(surface.vertices),
        "area": surface.area, "euler": surface.euler, "components": surface.n_components,
        "boundary_edges": len(surface.boundary_edges), "nonmanifold": surface.n_nonmanifold,
        "flat_regions": len(surface.flat), "flat_size": surface.flat_size,
    }  # fmt: skip
    job.report(surface, rows, numbers)
