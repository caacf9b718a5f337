"""``regionscope surface``: the exact level set or decision boundary of a network, as a mesh."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from regionscope import plot
from regionscope.cli import options, output
from regionscope.cli.ask import IndexOption, MinusOption, chosen_output
from regionscope.cli.job import SliceJob, with_job
from regionscope.errors import InputError
from regionscope.exact import LevelSet, level_set
from regionscope.exact.surfaces.files import MESH_FILES
from regionscope.explorer import explore as write_page
from regionscope.formatting import either

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
    Path | None, options.option("--out FILE", f"Mesh to write ({', '.join(MESH_FILES)}).", options.OUTPUT)
]
PageOption = Annotated[
    Path | None,
    options.option("--page FILE.html", "HTML page to write, with a surface that you can turn.", options.OUTPUT),
]


@with_job
def surface(
    job: SliceJob, value: ValueOption = 0.0, index: IndexOption = None, minus: MinusOption = None,
    classes: ClassesOption = None, out: MeshOption = None, page: PageOption = None,
) -> None:  # fmt: skip
    """Compute where an output equals a value, or where two classes meet: exact curves in 2-D, an exact mesh in 3-D.

    Example: regionscope surface --model sdf.py:build --box -1 1 --out mesh.ply --plot mesh.png --page mesh.html
    """
    network = job.network()
    slice = job.slice(network)
    job.check_targets(min(slice.dim, 2))  # a surface in space is drawn, too
    _check_files(out, page, slice.dim)
    between = _read_classes(classes)
    if between is not None and (index is not None or minus is not None):
        raise InputError("Expected --classes or --index, got both. Pass one of them.")
    target = None
    if between is None:
        border = "Pass --classes I,J for the boundary between two classes."
        target = chosen_output(index, minus, network, slice, otherwise=border)
    found = job.cut(level_set, network, slice, value=value, target=target, classes=between)
    _report(job, found)
    if out is not None:
        with output.writing_to(out):
            found.save(out, inputs=slice.origin.numel() == slice.dim)
        typer.echo(f"wrote {out}", err=True)
    job.draw(plot.level_set_figure, found)
    if page is not None:
        with output.writing_to(page):
            write_page(found, page)
        typer.echo(f"wrote {page}", err=True)


def _check_files(out: Path | None, page: Path | None, dim: int) -> None:
    """Raise ``InputError`` if a file cannot be written."""
    for path, endings, name in ((out, tuple(MESH_FILES), "an --out"), (page, (".html", ".htm"), "a --page")):
        if path is not None:
            if path.suffix not in endings:
                raise InputError(
                    f"Expected {name} file that ends in {either(endings)}, got {str(path)!r}. "
                    "Change the ending of the file."
                )
            output.check_folder(path)
    if page is not None and dim != 3:
        raise InputError(f"Expected a slice of dimension 3 for --page, got {dim}. Use --plot.")
    if out is not None and out.suffix == ".stl" and dim != 3:
        raise InputError(f"Expected a slice of dimension 3 for an .stl file, got {dim}. Write .ply, .obj or .vtp.")


def _read_classes(text: str | None) -> list[int] | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d+(,\d+)?", text):
        raise InputError(
            f"Expected --classes such as 3 or 3,5, got {text!r}. "
            "Pass the numbers of classes, counted from 0 and separated by commas."
        )
    return [int(n) for n in text.split(",")]


def _report(job: SliceJob, found: LevelSet) -> None:
    rows: dict[str, float] = {
        "segments" if found.dim == 2 else "faces": len(found),
        "vertices": len(found.vertices),
        "length" if found.dim == 2 else "area": found.area,
        "Euler characteristic": found.euler,
        "connected components": found.n_components,
        "ends on the border" if found.dim == 2 else "edges on the border": len(found.boundary_edges),
        "edges and vertices that are not manifold": found.n_nonmanifold,
        "regions on which the level is taken everywhere": len(found.flat),
    }
    numbers = {
        "value": found.value, "classes": found.classes, "faces": len(found), "vertices": len(found.vertices),
        "area": found.area, "euler": found.euler, "components": found.n_components,
        "boundary_edges": len(found.boundary_edges), "nonmanifold": found.n_nonmanifold,
        "flat_regions": len(found.flat), "flat_size": found.flat_size,
    }  # fmt: skip
    job.report(found, rows, numbers)
