"""``regionscope-lab shallow``: gradient flow of a univariate network beside the theorems of Safran et al. 2022."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Column, Table

from regionscope.cli import output
from regionscope.cli.options import option
from regionscope_lab import shallow as theory
from regionscope_lab.shallow import plot as pictures
from regionscope_lab.shallow.losses import Loss
from regionscope_lab.shallow.report import FlowRow
from regionscope_lab.shallow.state import ENDS
from regionscope_lab.shallow.theorems import Requirements

_RADIUS, _SIGMA_H = 1.0, 1.0  # of the interval [-R, R] of the data; standard deviation of w and b at the start
_ROWS = 14  # rows printed; the JSON file has all
_ACCOUNT = ("steps", "rejected", "crossed", "slid", "quiet", "ambiguous")


def shallow(
    teacher_width: Annotated[int, option("--teacher-width", "Width r of the teacher.", least=1)] = 3,
    width: Annotated[int | None, option("--width", "Width k; by default 4 * (32 r + 67).", least=1)] = None,
    samples: Annotated[int, option("--samples", "Number of training points.", least=1)] = 100,
    loss: Annotated[Loss, option("--loss", "Loss of the flow.")] = "exponential",
    max_log_loss: Annotated[float, option("--until", "Value of -log L at which to stop.")] = 1e6,
    out: Annotated[Path, option("--output -o DIR", "Folder for the files.")] = Path("shallow-flow"),
    seed: Annotated[int, option("--seed", "Seed for teacher, data and weights.", least=0)] = 0,
) -> None:
    """Integrate gradient flow of a univariate network on the labels of a teacher, and count its linear regions.

    Example: regionscope-lab shallow --teacher-width 3 --width 800 --samples 100
    """
    output.make_folder(out)
    teacher = _teacher(teacher_width, seed)
    k = width or 4 * theory.region_bound(teacher.width)
    deviation = theory.largest_sigma_o(k, sigma_h=_SIGMA_H, R=_RADIUS)
    data = theory.sample(teacher, samples, seed=seed + 1)
    start = theory.initial_network(k, sigma_h=_SIGMA_H, sigma_o=deviation, seed=seed + 2)
    console = Console()
    with console.status("Integrating ..."):
        result = theory.gradient_flow(start, data, theory.FlowOptions(loss=loss, max_log_loss=max_log_loss))
    with console.status("Measuring ..."):
        rows = theory.flow_table(result, radius=_RADIUS, teacher=teacher, every=max(1, len(result) // 40))
    setting = (teacher.width, teacher.rho, _RADIUS, 1 / (2 * _RADIUS))
    n = len(data)
    needs = [
        theory.theorem_2_3(*setting, k=k, n=n, eps=0.1, delta=0.1, sigma_h=_SIGMA_H, sigma_o=deviation),
        theory.theorem_3_1(*setting, k=k, n=n, delta=0.1, sigma_h=_SIGMA_H, sigma_o=deviation),
    ]
    _print_flow(console, result, rows, teacher, needs)
    minimum = theory.minimum_regions(data.y)
    with output.writing_to(out / "flow.gif"):
        pictures.flow_animation(result, out / "flow.gif", radius=_RADIUS, teacher=teacher)
    plateau = theory.effective_regions(result.network(), radius=_RADIUS)
    picture = pictures.flow_figure(rows, plateau, r=teacher.width, minimum=minimum, log_t0=result.log_t0)
    output.save_figure(picture, out / "regions.png")
    output.write_result(_document(result, rows, teacher, needs), [out / "flow.json"])
    typer.echo(f"wrote flow.gif, regions.png and flow.json to {out}")


def _print_table(console: Console, title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table of numbers that a narrow terminal takes."""
    columns = (Column(name, justify="right", no_wrap=True) for name in names)
    table = Table(*columns, title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)


def _teacher(width: int, seed: int) -> theory.Teacher:
    if width == 1:
        return theory.teacher_from_switches([], radius=_RADIUS)
    return theory.random_teacher(width, radius=_RADIUS, seed=seed)


def _print_flow(
    console: Console, result: theory.Flow, rows: list[FlowRow], teacher: theory.Teacher, needs: list[Requirements]
) -> None:
    names = ("log t", "-log L", "margin", "KKT", "turned", "regions", "effective", "dec.", "error")
    step = max(1, len(rows) // _ROWS)
    _print_table(console, repr(result), names, (
        (f"{row.log_t:.3g}", f"{row.log_inverse_loss:.3g}", f"{row.margin:.2g}", f"{row.kkt:.2g}",
         f"{row.direction_change:.1g}", f"{row.regions_line}/{row.regions_inside}",
         f"{row.effective}/{row.effective_inside}", f"{row.plateau_decades:.1f}", f"{row.classification_error:.3f}")
        for row in [*rows[:-1][::step], rows[-1]]
    ))  # fmt: skip
    console.print(
        "regions, effective: on the line / on (-R, R). dec.: decades of tolerance with the same effective number."
    )
    for line in _sentences(result, rows[-1], theory.region_bound(teacher.width), needs):
        console.print(line, highlight=False)


def _sentences(result: theory.Flow, last: FlowRow, bound: int, needs: list[Requirements]) -> list[str]:
    count = {name: int(getattr(result.end, name)[0]) for name in _ACCOUNT}
    width = result.theta.shape[2]
    lines = [
        f"Ended because {result.ending}; the direction turns by {float(result.end.direction_rate[0]):.2g} per unit of "
        f"log log t, KKT residual {last.kkt:.2g}.",
        f"Effective regions on (-R, R): {last.effective_inside}, on the line: {last.effective}; "
        f"bound 32r + 67 = {bound}; least possible: {theory.minimum_regions(result.sample.y)}.",
        f"Every point is classified from log t0 = {result.log_t0:.4g} on."
        if result.classified
        else "Not every point was classified.",
        f"{count['steps']:,} steps ({count['rejected']:,} cut at events or rejected); "
        f"{count['crossed'] + count['quiet']:,} times a fold crossed a point, {count['slid']:,} times it began to "
        f"slide along one, {count['ambiguous']} ambiguous.",
        f"Drift of v² - w² - b²: {last.drift:.1g}.",
        *(_requirement(need) for need in needs),
    ]
    if width < 4 * bound:
        lines.append(f"The bound says little at width {width}: take at least 4 (32r + 67) = {4 * bound}.")
    return lines


def _requirement(need: Requirements) -> str:
    met = ", ".join(f"{name} {'holds' if held else 'does not hold'}" for name, held in need.holds.items())
    sample = "" if need.n is None else f"n >= {need.n:.3g} (C0 = 1), "
    return (
        f"Theorem {need.theorem} at error and confidence 0.1 asks for {sample}k >= {need.k:.3g}, "
        f"sigma_h >= {need.sigma_h:.3g}, sigma_o <= {need.sigma_o:.2g}: {met}."
    )


def _document(
    result: theory.Flow, rows: list[FlowRow], teacher: theory.Teacher, needs: list[Requirements]
) -> dict[str, Any]:
    end = result.end
    return {
        "options": asdict(result.options),
        "teacher": {"width": teacher.width, "switches": teacher.switches.tolist(), "rho": teacher.rho},
        "bound": theory.region_bound(teacher.width),
        "minimum": theory.minimum_regions(result.sample.y),
        "log_t0": result.log_t0,
        "complete": result.status.complete,
        "reason": result.status.reason,
        "steps": {name: int(getattr(end, name)[0]) for name in _ACCOUNT},
        "ended": ENDS[int(end.end[0])],
        "direction_rate": float(end.direction_rate[0]),
        "theorems": [asdict(need) for need in needs],
        "rows": [asdict(row) for row in rows],
    }
