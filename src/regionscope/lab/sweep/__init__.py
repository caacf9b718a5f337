"""Sweeps: a grid of experiments, run anywhere, stopped any time, and asked questions afterwards."""

from regionscope.lab.sweep.grid import Sweep, override, read_experiment, read_toml
from regionscope.lab.sweep.query import query, write_parquet
from regionscope.lab.sweep.run import SweepReport, run_sweep
from regionscope.lab.sweep.table import RunTable, SweepStatus, flatten, read_runs, read_series, sweep_status
from regionscope.lab.sweep.work import Outcome

__all__ = [
    "Outcome",
    "RunTable",
    "Sweep",
    "SweepReport",
    "SweepStatus",
    "flatten",
    "override",
    "query",
    "read_experiment",
    "read_runs",
    "read_series",
    "read_toml",
    "run_sweep",
    "sweep_status",
    "write_parquet",
]
