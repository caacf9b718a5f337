"""Runs on a Dask cluster: processes of this machine, or workers anywhere that see the same folders."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from regionscope.cluster import open_client
from regionscope.errors import InputError, RegionscopeError
from regionscope.file_io import full_disk_as_error
from regionscope.formatting import first_line
from regionscope_lab.experiment import fail
from regionscope_lab.store import files
from regionscope_lab.sweep.work import Job, JobResult, work

_POLL_SECONDS = 0.2  # between two checks of the futures
_STOP_FILE_SECONDS = 1.0  # between two checks of the stop file by a worker


def run_on_dask(
    jobs: Sequence[Job], address: str, *, gpus: float, report: Callable[[JobResult], object], stop: Callable[[], bool]
) -> None:
    """Do the jobs on the cluster at ``address`` ("tcp://host:port", "local:4") and report each once.

    gpus: how much of the resource GPU a run takes; 0 for none. A worker that dies is no loss: the scheduler gives its
    run to another one, which continues from the last saved state.
    """
    with ExitStack() as stack:
        client = open_client(address, stack, gpus=gpus, instead=" and use workers=")
        stop_file = jobs[0].runs_dir / f".stop-{secrets.token_hex(6)}"
        stack.callback(files.remove, stop_file)
        resources = {"GPU": gpus} if gpus else None
        _check_resources(client, gpus)
        token = secrets.token_hex(4)
        futures = {}
        for job in jobs:
            name = f"run-{job.key}-{token}"
            future = client.submit(work_on_worker, job, stop_file, key=name, resources=resources, pure=False)
            futures[future] = job
        _collect(client, futures, report, stop, stop_file)


def work_on_worker(job: Job, stop_file: Path) -> JobResult:
    """Do a job inside a Dask worker; it stops when the stop file appears in the folder of the runs."""
    last = [0.0, False]

    def stop() -> bool:
        if time.monotonic() - last[0] >= _STOP_FILE_SECONDS:
            last[:] = [time.monotonic(), stop_file.exists()]
        return bool(last[1])

    return work(job, stop=stop)


def _collect(
    client: Any,
    futures: dict[Any, Job],
    report: Callable[[JobResult], object],
    stop: Callable[[], bool],
    stop_file: Path,
) -> None:
    stopping = False
    while futures:
        if not stopping and stop():
            stopping = True
            with full_disk_as_error(stop_file):
                stop_file.touch()  # those at work save their state; those that wait end at once
        for future in [future for future in futures if future.done()]:
            job = futures.pop(future)
            report(_outcome(future, job))
        if futures and client.status not in ("running", "connecting"):
            raise RegionscopeError("The Dask scheduler stopped. Start it and run the same command again to resume.")
        time.sleep(_POLL_SECONDS)


def _outcome(future: Any, job: Job) -> JobResult:
    if future.status == "finished":
        result: JobResult = future.result()
        return result
    if future.status in ("cancelled", "lost"):
        return job.result("stopped", "The cluster dropped it.")
    error = future.exception()
    if type(error).__name__ == "KilledWorker":
        sentence = "Its Dask workers died repeatedly, often for lack of memory."
    else:
        sentence = f"{type(error).__name__}: {first_line(error)}"
    fail(job.experiment, job.runs_dir, sentence)
    return job.result("failed", sentence)


def _check_resources(client: Any, gpus: float) -> None:
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if gpus and workers and not any(worker["resources"].get("GPU", 0) >= gpus for worker in workers):
        raise InputError(
            f"Expected a Dask worker with GPU={gpus:g}, got none. Start workers with: dask worker ADDRESS "
            "--nthreads 1 --resources GPU=1"
        )
