"""One run of a sweep, in any process: it takes a ``Job`` of plain values and returns a ``JobResult``."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from regionscope.errors import Busy, DiskFull, LockLost, Stopped
from regionscope_lab.config import Experiment
from regionscope_lab.experiment import run
from regionscope_lab.store import RunFolder
from regionscope_lab.train import TrainingProgress

_OTHER_VERSION = "The worker has another version of regionscope, with other settings; install the same one everywhere."
_one_at_a_time = threading.Lock()  # training uses the process's random state


@dataclass(frozen=True)
class Job:
    """What to run, where to store it, where to compute, and until when (seconds since 1970).

    ``key`` is the experiment's as its sender makes it; a worker with another version of the package may differ.
    """

    key: str
    experiment: Experiment
    runs_dir: Path
    device: str | None = None
    data_root: Path | None = None
    threads: int | None = 1
    deadline: float | None = None
    compiled: bool = False

    def result(self, status: str, message: str, repaired: Sequence[str] = ()) -> JobResult:
        """The outcome of this job."""
        return JobResult(self.key, self.experiment.label, status, message, tuple(repaired))


@dataclass(frozen=True)
class JobResult:
    """Outcome of a run. status: one of finished, diverged, failed, stopped (can be resumed), busy (in another process),
    full (the disk).
    """

    key: str
    label: str
    status: str
    message: str = ""
    repaired: tuple[str, ...] = ()
    skipped: bool = False


def work(
    job: Job, *, stop: Callable[[], bool] = lambda: False, on_share: Callable[[float], object] | None = None
) -> JobResult:
    """Do the job. on_share: called with the finished share of its training."""

    def is_over() -> bool:
        return stop() or (job.deadline is not None and time.time() >= job.deadline)

    def report(progress: TrainingProgress) -> None:
        if on_share is not None:
            on_share(progress.step / progress.total_steps)

    if job.experiment.key != job.key:
        return job.result("failed", _OTHER_VERSION)
    repaired: list[str] = []
    with _one_at_a_time:
        threads = torch.get_num_threads()
        if job.threads is not None:
            torch.set_num_threads(job.threads)
        try:
            folder = run(
                job.experiment, job.runs_dir, device=job.device, data_root=job.data_root, compiled=job.compiled,
                on_progress=report, stop=is_over, on_repair=repaired.append,
            )  # fmt: skip
        except Stopped as stopped:
            return job.result("stopped", str(stopped), repaired)
        except (Busy, LockLost) as busy:
            return job.result("busy", str(busy), repaired)
        except DiskFull as full:
            return job.result("full", str(full), repaired)
        finally:
            torch.set_num_threads(threads)
            _return_memory(job.device)
    return outcome_of(folder)


def _return_memory(device: str | None) -> None:
    """Give the memory of a run back to the GPU, which other workers may share. A recorded step that is part of a
    reference cycle holds its memory until the cycle is collected."""
    if str(device).startswith("cuda"):
        gc.collect()
        torch.cuda.empty_cache()


def outcome_of(folder: RunFolder, *, skipped: bool = False) -> JobResult:
    """The outcome of a run that has ended."""
    result = folder.result() or {"status": "stopped"}
    return JobResult(
        folder.key, folder.experiment.label, result["status"], str(result.get("error", "")), tuple(folder.repaired),
        skipped=skipped,
    )  # fmt: skip
