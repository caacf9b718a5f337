"""Table 1's 27 settings on digits: region count against generalisation gap, with the interval of the correlation.

python examples/table1_digits.py --workers 2      # under four minutes on two cores; runs in runs/table1_digits

Runs that are there already are loaded, so a second call only prints and draws. Writes table1_digits.png and
table1_digits.csv.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from matplotlib.figure import Figure

from regionscope.measures.correlate import Correlation, correlate
from regionscope_lab.correlation_figure import correlation_scatter
from regionscope_lab.fit import linear_fit
from regionscope_lab.sweep import RunTable, Sweep, read_runs, read_toml, run_sweep

GRID = Path(__file__).with_suffix(".toml")
FITTED = 0.01  # train error below which a network has learned its training data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/table1_digits"))
    parser.add_argument("--out", type=Path, default=Path("examples/output"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, help="fewer than in the file, for a quick look")
    parser.add_argument("--slices", type=int, help="fewer than in the file, for a quick look")
    chosen = parser.parse_args()
    sweep = Sweep.from_dict(settings(chosen.epochs, chosen.slices))
    start = time.perf_counter()
    report = run_sweep(sweep, chosen.runs, workers=chosen.workers, on_outcome=lambda run: print(run.status, run.label))
    print(f"{report.count('finished')} of {len(sweep)} runs finished; {time.perf_counter() - start:.0f} s")
    keys = {experiment.key for experiment in sweep}
    every = read_runs(chosen.runs)
    table = RunTable(every.columns, tuple(row for row in every.rows if row["key"] in keys))
    show(table)
    chosen.out.mkdir(parents=True, exist_ok=True)
    table.write_csv(chosen.out / "table1_digits.csv")
    draw(table).savefig(chosen.out / "table1_digits.png", dpi=150)
    print(f"wrote {chosen.out / 'table1_digits.png'} and {chosen.out / 'table1_digits.csv'}")


def settings(epochs: int | None, slices: int | None) -> dict[str, object]:
    """The file, with fewer epochs or slices where asked for."""
    document = read_toml(GRID)
    if epochs is not None:
        document["base"]["training"]["epochs"] = epochs
    if slices is not None:
        document["measure"][0]["options"]["slices"] = slices
    return document


def pairs(table: RunTable, points: str, *, fitted: bool = False) -> tuple[list[float], list[float]]:
    """Region count and gap of the finished runs, or of those that learned their training data."""
    rows = [row for row in table.rows if row["status"] == "finished"]
    if fitted:
        rows = [row for row in rows if row["train_error"] < FITTED]
    return [row[f"regions.{points}"] for row in rows], [row["gap"] for row in rows]


def show(table: RunTable) -> None:
    print("  lr     batch  decay   train err  gap     regions between training / test points")
    for row in table.rows:
        if row["status"] == "finished":
            name = f"{row['training.lr']:<6g} {row['training.batch_size']:>5}  {row['training.weight_decay']:.0e}"
            counts = f"{row['regions.train']:.2f} ± {row['regions.train.stderr']:.2f} / {row['regions.test']:.2f}"
            print(f"  {name}  {row['train_error']:9.2%}  {row['gap']:6.2%}  {counts}")
    for points in ("train", "test"):
        for fitted in (False, True):
            x, y = pairs(table, points, fitted=fitted)
            which = f"{len(x)} runs with train error below {FITTED:.0%}" if fitted else f"all {len(x)} runs"
            print(f"regions between {points} points against the gap, {which}: {found(x, y) or 'too few or all equal'}")


def found(x: list[float], y: list[float]) -> Correlation | None:
    """The correlation, where one is defined."""
    return correlate(x, y) if len(x) >= 3 and len(set(x)) > 1 and len(set(y)) > 1 else None


def draw(table: RunTable) -> Figure:
    figure = Figure(figsize=(4.2, 3.4), layout="constrained")
    axes = figure.add_subplot()
    x, y = pairs(table, "train")
    rates = [f"lr {row['training.lr']:g}" for row in table.rows if row["status"] == "finished"]
    line = linear_fit(x, y) if found(x, y) else None
    correlation_scatter(x, y, ax=axes, groups=rates, fit=line, found=found(x, y))
    axes.set(xlabel="decision regions between training points", ylabel="generalisation gap")
    return figure


if __name__ == "__main__":
    main()
