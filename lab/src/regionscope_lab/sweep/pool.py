"""Runs in worker processes of this machine; one that dies loses only the work since its last save."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

from regionscope.errors import RegionscopeError
from regionscope_lab.experiment import fail
from regionscope_lab.sweep.work import Job, JobResult, work

_MAX_DEATHS = 2  # a run fails after this many workers have died while they worked on it
_MAX_FAILED_STARTS = 5  # the sweep fails after this many workers in a row were killed before they began
_POLL_SECONDS = 0.3  # between two checks of ``stop``, and between two reports of progress


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    job: Job | None = None
    ready: bool = False


def run_in_pool(
    jobs: Sequence[Job],
    workers: int,
    *,
    report: Callable[[JobResult], object],
    on_share: Callable[[str, float], object],
    stop: Callable[[], bool],
) -> None:
    """Do the jobs, ``workers`` at a time, each in a fresh interpreter with one torch thread; report each once."""
    _WorkerPool(jobs, workers, report, on_share, stop).run()


class _WorkerPool:
    def __init__(
        self,
        jobs: Sequence[Job],
        workers: int,
        report: Callable[[JobResult], object],
        on_share: Callable[[str, float], object],
        stop: Callable[[], bool],
    ) -> None:
        self.context = multiprocessing.get_context("spawn")
        self.queue = deque(jobs)
        self.size = min(workers, len(jobs))
        self.report, self.on_share, self.stop = report, on_share, stop
        self.stopping = self.context.Event()
        self.workers: list[_Worker] = []
        self.deaths: dict[str, int] = {}
        self.failed_starts = 0  # in a row

    def run(self) -> None:
        try:
            while self.queue or any(worker.job for worker in self.workers):
                if self.stop() and not self.stopping.is_set():
                    self.stopping.set()  # running jobs save their state and report "stopped"
                    self._stop_queued()
                while len(self.workers) < self.size and self.queue:
                    self._start()
                self._listen()
        finally:
            self._close()

    def _start(self) -> None:
        mine, theirs = self.context.Pipe()
        process = self.context.Process(target=_serve, args=(theirs, self.stopping, os.getpid()), daemon=True)
        # Ctrl-C reaches every process of a terminal; a worker that is still importing would answer with a traceback.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()  # inherits the mask
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        worker = _Worker(process, mine)
        self.workers.append(worker)
        self._send_next(worker)

    def _send_next(self, worker: _Worker) -> None:
        worker.job = self.queue.popleft() if self.queue else None
        if worker.job is not None:
            try:
                worker.pipe.send(worker.job)
            except OSError:  # the worker has died, which ``_listen`` finds
                return

    def _listen(self) -> None:
        """Wait briefly for messages of the workers, and act on them."""
        for pipe in wait([worker.pipe for worker in self.workers], timeout=_POLL_SECONDS):
            worker = next(worker for worker in self.workers if worker.pipe is pipe)
            try:
                message = worker.pipe.recv()
            except (EOFError, OSError):
                self._handle_death(worker)
                continue
            if isinstance(message, JobResult):
                self.report(message)
                self._send_next(worker)
            elif message is None:
                worker.ready, self.failed_starts = True, 0
            else:
                self.on_share(*message)

    def _handle_death(self, worker: _Worker) -> None:
        """Put the run of a worker that died back into the queue; a run whose workers died repeatedly fails."""
        worker.process.join(5)
        code = worker.process.exitcode
        self.workers.remove(worker)
        worker.pipe.close()
        job = worker.job
        if not worker.ready and not self.stopping.is_set():
            self._restart(job, code)
            return
        if job is None:
            return
        self.deaths[job.key] = self.deaths.get(job.key, 0) + 1
        if self.stopping.is_set():
            self.report(job.result("stopped", "Its worker was gone before it could say so."))
        elif self.deaths[job.key] < _MAX_DEATHS:
            self.queue.append(job)
        else:
            cause = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            sentence = (
                f"Its worker process died {_MAX_DEATHS} times, last with {cause}; too little memory is a common reason."
            )
            fail(job.experiment, job.runs_dir, sentence)
            self.report(job.result("failed", sentence))

    def _restart(self, job: Job | None, code: int | None) -> None:
        """Put the run of a worker that died before it began first in the queue; raise if no worker can start."""
        if code is not None and code >= 0:
            raise RegionscopeError(
                f"A worker process ended while it started (exit code {code}). In a script that runs a sweep with "
                "workers, put the call under `if __name__ == '__main__':`."
            )
        self.failed_starts += 1
        if self.failed_starts >= _MAX_FAILED_STARTS:
            raise RegionscopeError(
                f"{_MAX_FAILED_STARTS} worker processes in a row were killed while they started, often because of "
                "too little memory. Use fewer workers."
            )
        if job is not None:
            self.queue.appendleft(job)

    def _stop_queued(self) -> None:
        while self.queue:
            job = self.queue.popleft()
            self.report(job.result("stopped", "It was not begun."))

    def _close(self) -> None:
        self.stopping.set()
        for worker in self.workers:
            worker.pipe.close()
        for worker in self.workers:
            worker.process.join(0.1 if worker.job is None else 10)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


def _serve(pipe: Connection, stopping: Any, parent: int) -> None:
    """Work on jobs from the pipe until it closes. Ctrl-C goes to the parent, which asks its workers to stop.

    A worker also stops if its parent has died.
    """
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    last = [0.0]

    def stop() -> bool:
        return bool(stopping.is_set()) or os.getppid() != parent

    def report_share(key: str, share: float) -> None:
        if time.monotonic() - last[0] >= _POLL_SECONDS:
            last[0] = time.monotonic()
            _send(pipe, (key, share))

    _send(pipe, None)
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        _send(pipe, (job.key, 0.0))  # says that the worker has started
        _send(pipe, work(job, stop=stop, on_share=partial(report_share, job.key)))


def _send(pipe: Connection, message: object) -> None:
    """Send a message to the parent; if the parent has died, the message is lost and ``stop`` returns True."""
    try:
        pipe.send(message)
    except OSError:
        return
