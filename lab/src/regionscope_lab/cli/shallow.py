"""``regionscope-lab shallow``: the two theory settings, run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Column, Table

from regionscope.cli import output
from regionscope.cli.options import option
from regionscope.errors import InputError
from regionscope_lab import shallow as theory
from regionscope_lab.shallow import plot as pictures
from regionscope_lab.shallow.losses import Loss
from regionscope_lab.shallow.report import FlowRow
from regionscope_lab.shallow.state import ENDS
from regionscope_lab.shallow.theorems import Requirements
from regionscope_lab.shallow.two_layer_rates import RateRow, Trend, rate_trend

shallow = typer.Typer(no_args_is_help=True, help="Compare theorems on shallow networks with experiments.")

_RECORDED = 7  # steps of each run in which the inequalities are checked
_RADIUS, _SIGMA_H = 1.0, 1.0  # of the interval [-R, R] of the data; standard deviation of w and b at the start
_ROWS = 14  # rows printed; the JSON file has all
_AT_EDGE = 1.5  # eta lambda_max from here on counts as the edge of stability
_ACCOUNT = ("steps", "rejected", "crossed", "slid", "quiet", "ambiguous")


OutOption = Annotated[Path, option("--output -o DIR", "Folder for the files.")]
SeedOption = Annotated[int, option("--seed", "Seed for teacher, data and weights.", least=0)]
UntilOption = Annotated[float, option("--until", "Value of -log L at which to stop.")]
RatesOption = Annotated[str, option("--rates C,C,...", "Learning rates in units of 2 / sharpness(0).")]


@shallow.command()
def flow(
    teacher_width: Annotated[int, option("--teacher-width", "Width r of the teacher.", least=1)] = 3,
    width: Annotated[int | None, option("--width", "Width k; by default 4 * (32 r + 67).", least=1)] = None,
    samples: Annotated[int, option("--samples", "Number of training points.", least=1)] = 100,
    switches: Annotated[
        str | None, option("--switches X,X,...", "Positions where the label of the teacher changes.")
    ] = None,
    loss: Annotated[Loss, option("--loss", "Loss of the flow.")] = "exponential",
    max_log_loss: UntilOption = 1e6,
    frames: Annotated[int, option("--frames", "Number of frames of the animation.", least=2)] = 60,
    out: OutOption = Path("shallow-flow"),
    seed: SeedOption = 0,
) -> None:
    """Integrate gradient flow of a univariate network on the labels of a teacher, and count its linear regions.

    Example: regionscope-lab shallow flow --teacher-width 3 --width 800 --samples 100
    """
    output.make_folder(out)
    teacher = _teacher(teacher_width, switches, seed)
    k = width or 4 * theory.region_bound(teacher.width)
    deviation = theory.largest_sigma_o(k, sigma_h=_SIGMA_H, R=_RADIUS)
    data = theory.sample(teacher, samples, seed=seed + 1)
    start = theory.initial_network(k, sigma_h=_SIGMA_H, sigma_o=deviation, seed=seed + 2)
    options = theory.FlowOptions(loss=loss, max_log_loss=max_log_loss)
    console = Console()
    with console.status("Integrating ..."):
        result = theory.gradient_flow(start, data, options)
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
        pictures.flow_animation(result, out / "flow.gif", radius=_RADIUS, teacher=teacher, frames=frames)
    plateau = theory.effective_regions(result.network(), radius=_RADIUS)
    picture = pictures.flow_figure(rows, plateau, r=teacher.width, minimum=minimum, log_t0=result.log_t0)
    typer.echo(f"wrote {out / 'flow.gif'}")
    _store(out, picture, "regions.png", _document(result, rows, teacher, needs), "flow.json")


@shallow.command(name="two-layer")
def two_layer(
    data: Annotated[
        Literal["line", "sphere"], option("--data", "Data: random on a sphere, or alternating on a line.")
    ] = "sphere",
    width: Annotated[int, option("--width", "Number p of units.", least=1)] = 100,
    dim: Annotated[int, option("--dim", "Dimension of the inputs.", least=1)] = 5,
    samples: Annotated[int, option("--samples", "Number N of training points.", least=2)] = 10,
    time: Annotated[float, option("--time", "Training time eta * steps, times sharpness(0) / 2.")] = 600.0,
    runs: Annotated[int, option("--runs", "Number of initialisations for each learning rate.", least=2)] = 10,
    rates: RatesOption = "0.25,0.5,1,1.5,2,2.5",
    out: OutOption = Path("shallow-two-layer"),
    seed: SeedOption = 0,
) -> None:
    """Train two-layer networks with several learning rates; check Lemmas 6.4 and 6.5 and Theorem 6.3.

    Example: regionscope-lab shallow two-layer --width 100 --dim 5 --samples 10
    """
    output.make_folder(out)
    x, y = theory.alternating_line(samples) if data == "line" else theory.random_sphere(samples, dim, seed=seed)
    first = theory.initial_two_layer(width, x.shape[1], seed=seed + 1)
    sharpness = theory.sharpness(first, x)
    if sharpness == 0:
        raise InputError(
            "Expected a unit that is active at a training point before training, got none. Raise --width, or change "
            "--seed."
        )
    edge = 2 / sharpness
    chosen = [edge * share for share in _numbers("--rates", rates)]
    console = Console()
    with console.status("Training ..."):
        rows = theory.regions_vs_learning_rate(
            x, y, chosen, width=width, runs=runs, time=edge * time, record=_RECORDED, seed=seed + 1
        )  # fmt: skip
    _print_rates(console, rows)
    trends = {"all": rate_trend(rows), "edge": rate_trend(rows, edge=_AT_EDGE)}
    for sentence in _trend_sentences(trends, rows):
        console.print(sentence, highlight=False)
    picture = pictures.rates_figure(rows, r=float(x.norm(dim=1).min()), n=samples)
    numbers = {"rows": [asdict(row) for row in rows], "trend": {name: asdict(t) for name, t in trends.items()}}
    _store(out, picture, "rates.png", numbers, "rates.json")


@shallow.command()
def regions(
    teachers: Annotated[str, option("--teachers R,R,...", "Widths r of the teachers.")] = "1,2,3",
    samples: Annotated[int, option("--samples", "Number of training points.", least=2)] = 100,
    runs: Annotated[int, option("--runs", "Number of initialisations for each teacher.", least=1)] = 5,
    max_log_loss: UntilOption = 1e6,
    out: OutOption = Path("shallow-regions"),
    seed: SeedOption = 0,
) -> None:
    """Compare the effective linear regions of flows of width 4 * (32 r + 67) with the bound 32 r + 67 (Theorem 4.2).

    Example: regionscope-lab shallow regions --teachers 1,2,3 --runs 5
    """
    output.make_folder(out)
    console = Console()
    if not re.fullmatch(r"\d+(,\d+)*", teachers):
        raise InputError(f"Expected --teachers such as 1,2,3, got {teachers!r}. Separate whole numbers by commas.")
    wanted = [int(r) for r in teachers.split(",")]
    with console.status("Integrating ..."):
        limit = theory.FlowOptions(max_log_loss=max_log_loss)
        rows = theory.regions_vs_teacher_width(wanted, n=samples, runs=runs, seed=seed, options=limit)
    title = f"Late flows on {samples} points, {runs} runs for each teacher"
    names = ("r", "width", "bound", "least", "right", "ended", "line", "inside", "mean", "KKT", "error")
    _print_table(console, title, names, (
        (row.r, row.width, row.bound, row.minimum, f"{row.classified}/{row.runs}", f"{row.converged}/{row.runs}",
         row.line, row.inside, f"{row.mean_inside:.1f}", f"{row.kkt:.2g}", f"{row.error:.3f}")
        for row in rows
    ))  # fmt: skip
    console.print(
        "right: flows that classify every point; ended: whose direction converged; line, inside: largest effective "
        "number of linear regions on the line and on (-R, R), mean: on (-R, R)."
    )
    _store(out, None, "", {"rows": [asdict(row) for row in rows]}, "regions.json")


@shallow.command()
def width(
    switches: Annotated[int, option("--switches", "Number r of label changes of the teacher.", least=1)] = 6,
    samples: Annotated[int, option("--samples", "Number of training points.", least=2)] = 60,
    runs: Annotated[int, option("--runs", "Number of initialisations for each width.", least=2)] = 32,
    steps: Annotated[int, option("--steps", "Largest number of steps of one flow.", least=1)] = 10_000,
    out: OutOption = Path("shallow-width"),
    seed: SeedOption = 0,
) -> None:
    """Measure how often gradient flow classifies an alternating sample, as a function of the width (Theorem 3.2).

    Example: regionscope-lab shallow width --switches 6 --runs 32
    """
    output.make_folder(out)
    console = Console()
    with console.status("Integrating ..."):
        limit = theory.FlowOptions(max_steps=steps, stall=1e-5, rest=1e-4)
        rows = theory.success_vs_width(switches, n=samples, runs=runs, seed=seed, options=limit)
    title = f"Gradient flow on {switches} evenly spaced label changes, {runs} runs for each width"
    names = ("alpha", "width", "success", "95%", "median loss", "bound", "above", "cut off")
    _print_table(console, title, names, (
        (f"{row.alpha:g}", row.width, f"{row.success:.2f}", f"{row.low:.2f}–{row.high:.2f}", f"{row.loss:.3g}",
         *(("", "") if row.bound is None else (f"{row.bound:.3f}", f"{row.above_bound:.2f}")), row.unfinished)
        for row in rows
    ))  # fmt: skip
    _store(out, pictures.width_figure(rows), "width.png", {"rows": [asdict(row) for row in rows]}, "width.json")


def _print_table(console: Console, title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table of numbers that a narrow terminal takes."""
    columns = (Column(name, justify="right", no_wrap=True) for name in names)
    table = Table(*columns, title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)


def _store(out: Path, figure: Figure | None, picture: str, numbers: dict[str, Any], document: str) -> None:
    """Write the figure and the numbers, and say where."""
    if figure is not None:
        output.save_figure(figure, out / picture)
        typer.echo(f"wrote {out / picture}")
    output.write_result(numbers, [out / document])
    typer.echo(f"wrote {out / document}")


def _teacher(width: int, switches: str | None, seed: int) -> theory.Teacher:
    if switches is not None:
        return theory.teacher_from_switches(_numbers("--switches", switches), radius=_RADIUS)
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


def _print_rates(console: Console, rows: list[RateRow]) -> None:
    names = ("eta", "steps", "ηλ start", "late", "regions", "95%", "loss", "lost", "6.4", "6.5", "6.3a", "6.3b", "fail")
    _print_table(console, "Region counts, sharpness, least relative slack of each inequality", names, (
        (f"{row.rate:.2g}", row.steps, f"{row.edge:.2f}", f"{row.sharpness:.2f}", f"{row.regions:.2f}",
         f"{row.low:.2f}–{row.high:.2f}", f"{row.loss:.1g}", f"{row.lost}/{row.runs}",
         *(f"{row.least_slack[name]:.2f}" for name in ("lemma_6_4", "lemma_6_5", "first", "second")), row.failures)
        for row in rows
    ))  # fmt: skip


def _trend_sentences(trends: dict[str, Trend], rows: list[RateRow]) -> list[str]:
    n_at_edge = sum(row.sharpness >= _AT_EDGE for row in rows)
    names = {
        "all": "all rates",
        "edge": f"the {n_at_edge} rates at the edge of stability (late ηλmax at least {_AT_EDGE:g})",
    }
    return [
        f"Over {names[name]}: {t.slope:+.3f} regions for each doubling of eta (95%: {t.low:+.3f} to {t.high:+.3f}, "
        f"{t.runs} runs)."
        if t.runs > 1
        else f"Over {names[name]}: too few to say."
        for name, t in trends.items()
    ]


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


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(
            f"Expected {option} such as -0.4,0.3, got {text!r}. Separate the numbers by commas."
        ) from error
