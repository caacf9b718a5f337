"""Sweeps: run a grid of experiments on one or several machines, stop and resume it, and query its results."""

from regionscope_lab.sweep.grid import Sweep, override, parse_toml, read_experiment, read_toml
from regionscope_lab.sweep.query import query, write_parquet
from regionscope_lab.sweep.run import SweepReport, run_sweep
from regionscope_lab.sweep.settings import differing, flatten, short_names
from regionscope_lab.sweep.table import RunTable, SweepStatus, read_runs, read_series, sweep_status
from regionscope_lab.sweep.work import JobResult

__all__ = [
    "JobResult",
    "RunTable",
    "Sweep",
    "SweepReport",
    "SweepStatus",
    "differing",
    "flatten",
    "override",
    "parse_toml",
    "query",
    "read_experiment",
    "read_runs",
    "read_series",
    "read_toml",
    "run_sweep",
    "short_names",
    "sweep_status",
    "write_parquet",
]
