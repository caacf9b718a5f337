"""A Dask scheduler and two workers on loopback: forks of one new process that has loaded everything once.

It does not see the files of the tests, like a worker on another machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAM = """
import asyncio, importlib, os, sys
from distributed import Scheduler, Worker

folder, *modules = sys.argv[1:]
for name in modules:
    importlib.import_module(name)

async def schedule():
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        os.write(writing, scheduler.address.encode())
        os.close(writing)
        await scheduler.finished()

async def work():
    async with Worker(address, nthreads=1, resources={"GPU": 1}, local_directory=folder) as worker:
        await worker.finished()

def fork(coroutine):
    if os.fork() == 0:
        try:
            asyncio.run(coroutine())
        finally:
            os._exit(0)

reading, writing = os.pipe()
fork(schedule)
os.close(writing)
with open(reading) as pipe:
    address = pipe.read()
fork(work)
fork(work)
print(address, flush=True)
os.wait()
os.wait()
os.wait()
"""


@contextmanager
def two_workers(folder: Path, *modules: str) -> Iterator[str]:
    """The address of the scheduler. Each worker has one thread and GPU=1. modules: loaded before the fork."""
    words = [sys.executable, "-c", _PROGRAM, str(folder), *modules]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    errors = folder / "stderr.txt"
    with (
        errors.open("w") as said,
        subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=said, text=True, env=environment, start_new_session=True
        ) as started,
    ):
        try:
            assert started.stdout is not None
            address = started.stdout.readline().strip()
            assert address.startswith("tcp://127.0.0.1:"), errors.read_text()
            yield address
        finally:
            os.killpg(started.pid, signal.SIGKILL)
