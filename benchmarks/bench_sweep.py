"""Folders of runs: seconds to list ten thousand of them, to ask SQL of them, and to see that all have ended.

python benchmarks/bench_sweep.py                # table on screen, JSON in benchmarks/results/
python benchmarks/bench_sweep.py --runs 1000    # fewer folders
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.store import RunFolder, files
from regionscope_lab.sweep import query, read_runs, run_sweep, sweep_status
from results import write
from timing import call_seconds

EXPERIMENT = Experiment(
    data=DataSpec(name="digits"),
    network=NetworkSpec(name="mlp", options={"depth": 3, "width": 256}),
    training=Training(epochs=20),
    measures=(MeasureSpec(instrument="region_count"), MeasureSpec(instrument="parameter_norms", name="norm")),
)


def write_runs(folder: Path, n: int) -> list[Experiment]:
    """Folders as a sweep leaves them, with made-up numbers."""
    experiments = [replace(EXPERIMENT, seed=seed) for seed in range(n)]
    first = RunFolder.create(folder, experiments[0])
    names = ("train_loss", "train_error", "test_error")
    with first.claim():
        epochs = [{"step": e, "epoch": e, "value": 1 / e, "stderr": None} for e in range(1, 21)]
        first.append({**epoch, "name": name} for epoch in epochs for name in names)
        numbers = {"epochs": 20, "steps": 240, "seconds": 3.0, "train_loss": 0.1, "train_error": 0.0, "test_error": 0.1}
        measures = {"region_count": {"value": 2.5, "stderr": 0.1}, "norm.l2": {"value": 9.0, "stderr": None}}
        first.finish({"status": "finished", **numbers, "gap": 0.1, "measures": measures})
    result, rows = first.path / "result.json", first.path / "rows.jsonl"
    for experiment in experiments[1:]:
        path = folder / experiment.key
        path.mkdir()
        content = json.loads((first.path / "config.json").read_text()) | {"seed": experiment.seed}
        (path / "config.json").write_text(_with_checksum(content))
        shutil.copy(result, path)
        shutil.copy(rows, path)
    return experiments


def _with_checksum(content: dict[str, object]) -> str:
    content.pop("checksum", None)
    return json.dumps(content | {"checksum": files.digest(content)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        experiments = write_runs(folder, chosen.runs)
        row = {
            "runs": chosen.runs,
            "table_seconds": call_seconds(lambda: read_runs(folder)).clock,
            "status_seconds": call_seconds(lambda: sweep_status(folder)).clock,
            "sql_seconds": call_seconds(lambda: query(folder, "SELECT avg(gap), avg(region_count) FROM runs")).clock,
            "skip_seconds": call_seconds(lambda: run_sweep(experiments, folder)).clock,
        }
    for name, value in row.items():
        print(f"{name:20} {value:.4g}" if isinstance(value, float) else f"{name:20} {value}")
    write("sweep", row)


if __name__ == "__main__":
    main()
