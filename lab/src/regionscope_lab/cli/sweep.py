"""``regionscope-lab sweep``: run a grid of experiments, show its progress, and query the results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from regionscope.cli import options, output
from regionscope.errors import InputError
from regionscope.formatting import counted
from regionscope_lab.cli import options as lab_options
from regionscope_lab.cli.options import ProgressOption
from regionscope_lab.cli.run_table import agreed, answer_table, runs_table
from regionscope_lab.cli.running import duration, interruptible, print_failed, shown_progress
from regionscope_lab.store import ENDED
from regionscope_lab.sweep import (
    Sweep,
    SweepReport,
    SweepStatus,
    query,
    read_runs,
    read_series,
    run_sweep,
    sweep_status,
    write_parquet,
)

sweep = typer.Typer(no_args_is_help=True, help="Run a grid of experiments, resume it and query its results.")

_STATUSES = ("finished", "diverged", "failed", "running", "stopped", "new", "damaged")
_WIDE = 100_000  # characters; no table is wider


@sweep.command()
def run(
    grid: Annotated[
        Path, typer.Argument(metavar="GRID.toml", help="TOML file with a base experiment, a grid and measures.")
    ],
    runs: lab_options.RunsOption = Path("runs"),
    workers: Annotated[
        int,
        options.option(
            "--workers", "Number of processes on this machine; they share the device.", options.WORK, least=1
        ),
    ] = 1,
    device: options.DeviceOption = "cpu",
    threads: Annotated[
        int, options.option("--threads", "Number of torch threads of each run.", options.WORK, least=1)
    ] = 1,
    dask: options.DaskOption = None,
    compile_steps: Annotated[
        bool,
        options.option(
            "--compile",
            "Whether to compile the training step on CUDA: faster, but the last digits can vary between runs.",
            options.WORK,
        ),
    ] = False,
    progress: ProgressOption = None,
) -> None:
    """Run every experiment of the grid that has not ended. Run the command again to resume.

    Exit code: 0 if all runs ended, 1 if some failed, 3 if the sweep stopped early.

    Example: regionscope-lab sweep run grid.toml --runs runs --workers 2
    """
    plan = Sweep.from_toml(grid)
    if dask is None:
        options.read_device(device)
    several = workers > 1 or dask is not None
    with interruptible() as stop, shown_progress(len(plan), progress, workers=several) as shown:
        report = run_sweep(
            plan, runs, workers=workers, device=device, dask=dask, threads=threads, compiled=compile_steps, stop=stop,
            on_outcome=shown.outcome, on_share=shown.share,
        )  # fmt: skip
    _print_report(report)
    if not report.complete:
        raise typer.Exit(3)
    if report.count("failed"):
        raise typer.Exit(1)


@sweep.command()
def status(runs: lab_options.RunsOption = Path("runs")) -> None:
    """Show how many runs are finished, running, stopped and new (not started), on any machine.

    Damaged runs are repaired by the next `sweep run`, which also compares the checksums of all checkpoints.

    Example: regionscope-lab sweep status --runs runs
    """
    Console().print(_status_table(sweep_status(runs)))


@sweep.command()
def table(
    runs: lab_options.RunsOption = Path("runs"),
    sql: Annotated[str | None, options.option("--sql QUERY", "SQL query on the tables runs and rows (DuckDB).")] = None,
    all_columns: Annotated[bool, options.option("--all", "Whether to show all columns; pipe them to less -S.")] = False,
) -> None:
    """Show one line for each run: differing settings, status, errors, gap and the last value of every measure.

    Example: regionscope-lab sweep table --runs runs --sql 'SELECT "training.lr", avg(gap) FROM runs GROUP BY ALL'
    """
    if sql is not None:
        Console().print(answer_table(query(runs, sql)))
        return
    stored = read_runs(runs)
    if not stored.rows:
        raise InputError(f"No runs found in {str(runs)!r}. Pass the folder of `sweep run --runs`.")
    if not all_columns:
        typer.echo(f"{counted(len(stored), 'run')}; all have {', '.join(agreed(stored))}")
    console = Console(width=_WIDE if all_columns else None)
    shown, left_out = runs_table(stored, width=console.width, all_columns=all_columns)
    console.print(shown)
    if left_out:
        typer.echo(f"{counted(left_out, 'column')} left out; `--all` shows all columns, `sweep export` writes them")
    for row in stored.rows:
        if row.get("error"):
            typer.echo(f"{row['status']}: {row['key']}: {row['error']}", err=True)


@sweep.command()
def export(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="File to write, .csv or .parquet.")],
    runs: lab_options.RunsOption = Path("runs"),
    rows: Annotated[
        bool, options.option("--rows", "Whether to write the time series of all runs instead of one line for each run.")
    ] = False,
) -> None:
    """Write the whole table, all columns, as CSV or Parquet.

    Example: regionscope-lab sweep export runs.csv --runs runs
    """
    if target.suffix not in (".csv", ".parquet"):
        raise InputError(
            f"Expected a file that ends in .csv or .parquet, got {str(target)!r}. Change the ending of the file."
        )
    output.check_folder(target)
    stored = read_series(runs) if rows else read_runs(runs)
    with output.writing_to(target):
        if target.suffix == ".csv":
            stored.write_csv(target)
        else:
            write_parquet(stored, target)
    typer.echo(f"wrote {target} ({counted(len(stored), 'line')})")


def _print_report(report: SweepReport) -> None:
    """Print the repaired and the failed runs on stderr, and the summary on stdout."""
    for sentence in report.repaired:
        typer.echo(f"repaired: {sentence}", err=True)
    print_failed(report.outcomes)
    total, skipped = len(report.outcomes), sum(outcome.skipped for outcome in report.outcomes)
    parts = [f"{n} {name}" for name in ("finished", "diverged", "failed") if (n := report.count(name))]
    left = total - report.count(*ENDED, "failed")
    parts += [f"{left} to do"] if left else []
    already = f" ({skipped} had ended before)" if skipped else ""
    typer.echo(
        f"{counted(total, 'run')}: {', '.join(parts)}{already}, in {duration(report.seconds)}; {report.runs_dir}"
    )
    if not report.complete:
        typer.echo(f"{report.reason} Run the same command again to resume.", err=True)
    elif report.count("failed"):
        typer.echo("Run the same command again to retry the failed runs.", err=True)


def _status_table(progress: SweepStatus) -> Table:
    table = Table("", Column("", justify="right"), title=counted(progress.total, "run"), show_header=False)
    for name in _STATUSES:
        if progress.counts.get(name):
            table.add_row(name, f"{progress.counts[name]:,}")
    if progress.running:
        table.add_section()
    for key, share in progress.running.items():
        table.add_row(f"{key}  {progress.labels[key]}", f"{share:.0%}")
    if progress.remaining_seconds is not None:
        table.add_section()
        table.add_row("time left, about", duration(progress.remaining_seconds))
    return table
