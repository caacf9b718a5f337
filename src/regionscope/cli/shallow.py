"""``regionscope shallow``: the two theory settings, run."""

from __future__ import annotations

import math
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from regionscope import shallow as theory
from regionscope.cli import output
from regionscope.errors import InputError
from regionscope.lab.provenance import provenance
from regionscope.plot import shallow as pictures

__all__ = ["shallow"]

shallow = typer.Typer(no_args_is_help=True, help="Run the theorems: gradient flow in one dimension, and two layers.")

_ROWS = 14  # rows printed; the JSON file has all
_ACCOUNT = ("steps", "rejected", "crossed", "slid", "quiet", "ambiguous")


class LossName(StrEnum):
    """The loss of the flow."""

    exponential = "exponential"
    logistic = "logistic"


class DataName(StrEnum):
    """The training points of the two-layer setting."""

    line = "line"
    sphere = "sphere"


OutOption = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the files go.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="For teacher, data and weights.")]
RatesOption = Annotated[str, typer.Option("--rates", metavar="C,C,...", help="Learning rates, times 2 / sharpness(0).")]


@shallow.command()
def flow(
    teacher_width: Annotated[int, typer.Option("--teacher-width", min=1, help="r, the width of the teacher.")] = 3,
    width: Annotated[int | None, typer.Option("--width", min=1, help="k; by default 4 (32 r + 67).")] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Number of training points.")] = 100,
    switches: Annotated[
        str | None, typer.Option("--switches", metavar="X,X,...", help="Label changes of the teacher.")
    ] = None,
    radius: Annotated[float, typer.Option("--radius", help="R: the data lie in [-R, R].")] = 1.0,
    loss: Annotated[LossName, typer.Option("--loss", help="Loss of the flow.")] = LossName.exponential,
    sigma_h: Annotated[float, typer.Option("--sigma-h", help="Standard deviation of w and b at the start.")] = 1.0,
    sigma_o: Annotated[float | None, typer.Option("--sigma-o", help="That of v; by default as in Theorem 2.3.")] = None,
    max_log_loss: Annotated[float, typer.Option("--until", help="Stop when -log L reaches this.")] = 1e4,
    rtol: Annotated[float, typer.Option("--rtol", help="Tolerated error of a step.")] = 1e-5,
    frames: Annotated[int, typer.Option("--frames", min=2, help="Moments in the animation.")] = 60,
    out: OutOption = Path("shallow-flow"),
    seed: SeedOption = 0,
) -> None:  # fmt: skip
    """Integrate gradient flow of a univariate network on the labels of a teacher, and watch its linear regions.

    Example: regionscope shallow flow --teacher-width 3 --width 800 --samples 100
    """
    out = _folder(out)
    teacher = _teacher(teacher_width, switches, radius, seed)
    k = width or 4 * theory.region_bound(teacher.width)
    deviation = sigma_o if sigma_o is not None else 1 / (4 * k * max(radius, 1.0) * sigma_h * math.log(12 * k / 0.1))
    data = theory.sample(teacher, samples, seed=seed + 1)
    start = theory.initial_network(k, sigma_h=sigma_h, sigma_o=deviation, seed=seed + 2)
    options = theory.FlowOptions(loss=loss.value, rtol=rtol, max_log_loss=max_log_loss)
    console = Console()
    with console.status("Integrating ..."):
        result = theory.gradient_flow(start, data, options)
    with console.status("Measuring ..."):
        rows = theory.flow_table(result, radius=radius, teacher=teacher, every=max(1, len(result) // 40))
    needs = theory.theorem_2_3(
        teacher.width, teacher.rho, radius, 1 / (2 * radius), k, len(data), 0.1, 0.1, sigma_h=sigma_h, sigma_o=deviation
    )
    _print_flow(console, result, rows, teacher, needs)
    minimum = theory.minimum_regions(data.y)
    pictures.flow_animation(result, out / "flow.gif", radius=radius, teacher=teacher, frames=frames)
    plateau = theory.effective_regions(result.network(), radius=radius)
    picture = pictures.flow_figure(rows, plateau, r=teacher.width, minimum=minimum, log_t0=result.log_t0)
    output.save_figure(picture, out / "regions.png")
    output.write_json(_document(result, rows, teacher, needs), str(out / "flow.json"))
    for name in ("flow.gif", "regions.png", "flow.json"):
        typer.echo(f"wrote {out / name}")


@shallow.command(name="two-layer")
def two_layer(
    data: Annotated[
        DataName, typer.Option("--data", help="Alternating on a line, or random on a sphere.")
    ] = DataName.line,
    width: Annotated[int, typer.Option("--width", min=1, help="p, the number of units.")] = 60,
    dim: Annotated[int, typer.Option("--dim", min=1, help="Dimension of the sphere's space.")] = 3,
    samples: Annotated[int, typer.Option("--samples", min=2, help="N, the number of training points.")] = 8,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of gradient descent.")] = 1500,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Initialisations for each learning rate.")] = 5,
    rates: RatesOption = "0.05,0.2,0.6,0.95,1.2,1.5,2",
    out: OutOption = Path("shallow-two-layer"),
    seed: SeedOption = 0,
) -> None:
    """Train two-layer networks with several learning rates; check Lemmas 6.4 and 6.5 and Theorem 6.3 on the way.

    Example: regionscope shallow two-layer --width 60 --samples 8
    """
    out = _folder(out)
    x, y = theory.alternating_line(samples) if data is DataName.line else theory.random_sphere(samples, dim, seed=seed)
    first = theory.initial_two_layer(width, x.shape[1], seed=seed + 1)
    edge = 2 / theory.sharpness(first, x)
    chosen = [edge * share for share in _numbers("--rates", rates)]
    console = Console()
    with console.status("Training ..."):
        rows = theory.against_rate(x, y, chosen, width=width, runs=runs, steps=steps, seed=seed + 1)
    _print_rates(console, rows)
    output.save_figure(pictures.rates_figure(rows, r=float(x.norm(dim=1).min()), n=samples), out / "rates.png")
    output.write_json(
        {"rows": [_plain(asdict(row)) for row in rows], "provenance": provenance()}, str(out / "rates.json")
    )
    for name in ("rates.png", "rates.json"):
        typer.echo(f"wrote {out / name}")


@shallow.command()
def width(
    switches: Annotated[int, typer.Option("--switches", min=1, help="r: label changes of the teacher.")] = 6,
    samples: Annotated[int, typer.Option("--samples", min=2, help="Number of training points.")] = 60,
    runs: Annotated[int, typer.Option("--runs", min=2, help="Initialisations for each width.")] = 32,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Most steps of one flow.")] = 1500,
    out: OutOption = Path("shallow-width"),
    seed: SeedOption = 0,
) -> None:
    """How often gradient flow classifies an evenly alternating sample, against the width (the message of Theorem 3.2).

    Example: regionscope shallow width --switches 6 --runs 32
    """
    out = _folder(out)
    console = Console()
    with console.status("Integrating ..."):
        limit = theory.FlowOptions(max_steps=steps, stall=1e-5)
        rows = theory.success_against_width(switches, n=samples, runs=runs, seed=seed, options=limit)
    table = Table(title=f"Gradient flow on {switches} evenly spaced label changes, {runs} runs for each width")
    for name in ("alpha", "width", "success", "± s.e.", "median loss", "bound", "above", "cut off"):
        table.add_column(name, justify="right")
    for row in rows:
        bound = "" if row.bound is None else f"{row.bound:.3f}"
        above = "" if row.bound is None else f"{row.above_bound:.2f}"
        table.add_row(
            f"{row.alpha:g}", str(row.width), f"{row.success:.2f}", f"{row.stderr:.2f}", f"{row.loss:.3g}",
            bound, above, str(row.unfinished),
        )  # fmt: skip
    console.print(table)
    output.save_figure(pictures.width_figure(rows), out / "width.png")
    output.write_json(
        {"rows": [_plain(asdict(row)) for row in rows], "provenance": provenance()}, str(out / "width.json")
    )
    for name in ("width.png", "width.json"):
        typer.echo(f"wrote {out / name}")


def _teacher(width: int, switches: str | None, radius: float, seed: int) -> theory.Teacher:
    if switches is not None:
        return theory.teacher_from_switches(_numbers("--switches", switches), radius=radius)
    if width == 1:
        return theory.teacher_from_switches([], radius=radius)
    return theory.random_teacher(width, radius=radius, seed=seed)


def _print_flow(
    console: Console,
    result: theory.Flow,
    rows: list[theory.FlowRow],
    teacher: theory.Teacher,
    needs: theory.Requirements,
) -> None:
    table = Table(title=f"{result!r}", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("log t", "-log L", "margin", "KKT", "turned", "regions", "effective", "dec.", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    step = max(1, len(rows) // _ROWS)
    for row in [*rows[:-1][::step], rows[-1]]:
        table.add_row(
            f"{row.log_t:.3g}", f"{row.log_inverse_loss:.3g}", f"{row.margin:.2g}", f"{row.kkt:.2g}",
            f"{row.direction_change:.1g}", f"{row.regions_line}/{row.regions_inside}",
            f"{row.effective}/{row.effective_inside}", f"{row.plateau_decades:.1f}", f"{row.classification_error:.4f}",
        )  # fmt: skip
    console.print(table)
    console.print(
        "regions, effective: on the line / on (-R, R). dec.: decades of tolerance with the same effective number."
    )
    for line in _sentences(result, rows[-1], theory.region_bound(teacher.width), needs):
        console.print(line, highlight=False)


def _sentences(result: theory.Flow, last: theory.FlowRow, bound: int, needs: theory.Requirements) -> list[str]:
    count = {name: int(getattr(result.end, name)[0]) for name in _ACCOUNT}
    met = ", ".join(f"{name} {'holds' if held else 'does not hold'}" for name, held in needs.holds.items())
    width = result.theta.shape[2]
    lines = [
        f"Effective regions on (-R, R): {last.effective_inside}, on the line: {last.effective}; "
        f"bound 32r + 67 = {bound}; least possible: {theory.minimum_regions(result.sample.y)}.",
        f"Every point is classified from log t0 = {result.log_t0:.4g} on."
        if result.classified
        else "Not every point was classified.",
        f"{count['steps']:,} steps ({count['rejected']:,} cut at events or rejected); "
        f"{count['crossed'] + count['quiet']:,} times a kink crossed a point, {count['slid']:,} times it began to "
        f"slide along one, {count['ambiguous']} ambiguous.",
        f"Drift of v² - w² - b²: {last.drift:.1g}.",
        f"Theorem 2.3 with eps = delta = 0.1 and C0 = 1 asks for k >= {needs.k:.3g}, "
        f"sigma_h >= {needs.sigma_h:.3g}: {met}.",
    ]
    if width < 4 * bound:
        lines.append(f"The bound says little at width {width}: take at least 4 (32r + 67) = {4 * bound}.")
    if not result.status:
        lines.append(f"The flow was stopped: {result.status.reason}.")
    return lines


def _print_rates(console: Console, rows: list[theory.RateRow]) -> None:
    table = Table(
        title="Region counts, sharpness, least relative slack of each inequality",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for name in ("eta", "ηλ start", "ηλ late", "regions", "s.e.", "lost", "6.4", "6.5", "6.3a", "6.3b", "fail"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        slack = [f"{row.least_slack[name]:.2f}" for name in ("lemma_6_4", "lemma_6_5", "first", "second")]
        table.add_row(
            f"{row.rate:.3g}", f"{row.edge:.2f}", f"{row.sharpness:.2f}", f"{row.regions:.2f}",
            f"{row.regions_stderr:.2f}", f"{row.diverged}/{row.runs}", *slack, str(row.failures),
        )  # fmt: skip
    console.print(table)


def _document(
    result: theory.Flow, rows: list[theory.FlowRow], teacher: theory.Teacher, needs: theory.Requirements
) -> dict[str, Any]:
    end = result.end
    return {
        "options": _plain(asdict(result.options)),
        "teacher": {"width": teacher.width, "switches": teacher.switches.tolist(), "rho": teacher.rho},
        "bound": theory.region_bound(teacher.width),
        "minimum": theory.minimum_regions(result.sample.y),
        "log_t0": _finite(result.log_t0),
        "complete": result.status.complete,
        "reason": result.status.reason,
        "steps": {name: int(getattr(end, name)[0]) for name in _ACCOUNT},
        "theorem_2_3": _plain(asdict(needs)),
        "rows": [_plain(asdict(row)) for row in rows],
        "provenance": provenance(),
    }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _finite(v) if isinstance(v, float) else v for name, v in values.items()}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"{option} came as {text!r}; it must look like -0.4,0.3.") from error


def _folder(out: Path) -> Path:
    if out.exists() and not out.is_dir():
        raise InputError(f"--out came as {str(out)!r}, which is a file; give a folder.")
    out.mkdir(parents=True, exist_ok=True)
    return out
