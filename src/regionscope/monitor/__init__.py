"""Watching a training: schedules, rows, listeners. Measuring leaves no trace."""

from regionscope.monitor.callbacks import TensorBoard, WeightsAndBiases, lightning_callback, transformers_callback
from regionscope.monitor.monitor import Listener, Measure, Monitor, no_trace, same_randomness
from regionscope.monitor.rows import Row, append_rows, read_rows
from regionscope.monitor.schedule import Schedule, as_schedule, every, log_spaced, parse_schedule

__all__ = [
    "Listener",
    "Measure",
    "Monitor",
    "Row",
    "Schedule",
    "TensorBoard",
    "WeightsAndBiases",
    "append_rows",
    "as_schedule",
    "every",
    "lightning_callback",
    "log_spaced",
    "no_trace",
    "parse_schedule",
    "read_rows",
    "same_randomness",
    "transformers_callback",
]
