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
from regionscope.lab.experiment import fail
from regionscope.lab.sweep.work import Job, JobResult, work

_TRIES = 2  # a run whose worker dies this often is taken for the reason
_STARTS = 5  # number of workers in a row that may be killed before they begin
_LOOK = 0.3  # seconds between two looks at the parent, and between two reports of progress


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
        self.halt = self.context.Event()
        self.workers: list[_Worker] = []
        self.deaths: dict[str, int] = {}
        self.stillborn = 0  # workers in a row that died while they imported

    def run(self) -> None:
        try:
            while self.queue or any(worker.job for worker in self.workers):
                if self.stop() and not self.halt.is_set():
                    self.halt.set()  # those at work save their state and say so; nothing new is begun
                    self._give_up_queue()
                while len(self.workers) < self.size and self.queue:
                    self._start()
                self._listen()
        finally:
            self._close()

    def _start(self) -> None:
        mine, theirs = self.context.Pipe()
        process = self.context.Process(target=_serve, args=(theirs, self.halt, os.getpid()), daemon=True)
        # Ctrl-C reaches every process of a terminal; a worker that is still importing would answer with a traceback.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()  # inherits the mask
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        worker = _Worker(process, mine)
        self.workers.append(worker)
        self._give(worker)

    def _give(self, worker: _Worker) -> None:
        worker.job = self.queue.popleft() if self.queue else None
        if worker.job is not None:
            try:
                worker.pipe.send(worker.job)
            except OSError:  # it has died; its end of the pipe says so on the next look
                return

    def _listen(self) -> None:
        """Wait a moment for news, and act on it."""
        for pipe in wait([worker.pipe for worker in self.workers], timeout=_LOOK):
            worker = next(each for each in self.workers if each.pipe is pipe)
            try:
                news = worker.pipe.recv()
            except (EOFError, OSError):
                self._bury(worker)
                continue
            if isinstance(news, JobResult):
                self.report(news)
                self._give(worker)
            elif news is None:
                worker.ready, self.stillborn = True, 0
            else:
                self.on_share(*news)

    def _bury(self, worker: _Worker) -> None:
        """A worker died: its run goes back to the queue, or fails when that happened before."""
        worker.process.join(5)
        code = worker.process.exitcode
        self.workers.remove(worker)
        worker.pipe.close()
        job = worker.job
        if not worker.ready and not self.halt.is_set():
            self._start_again(job, code)
            return
        if job is None:
            return
        self.deaths[job.key] = self.deaths.get(job.key, 0) + 1
        if self.halt.is_set():
            self.report(
                JobResult(job.key, job.experiment.label, "stopped", "Its worker was gone before it could say so.")
            )
        elif self.deaths[job.key] < _TRIES:
            self.queue.append(job)
        else:
            cause = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            sentence = (
                f"Its worker process died {_TRIES} times, last with {cause}; too little memory is a common reason."
            )
            fail(job.experiment, job.runs_dir, sentence)
            self.report(JobResult(job.key, job.experiment.label, "failed", sentence))

    def _start_again(self, job: Job | None, code: int | None) -> None:
        """A worker died before it began: a new one takes its run over, unless no worker can begin."""
        if code is not None and code >= 0:
            raise RegionscopeError(
                f"A worker process ended while it started (exit code {code}). In a script that runs a sweep with "
                "workers, put the call under `if __name__ == '__main__':`."
            )
        self.stillborn += 1
        if self.stillborn >= _STARTS:
            raise RegionscopeError(
                f"{_STARTS} worker processes in a row were killed while they started, often because of too little "
                "memory. Use fewer workers."
            )
        if job is not None:
            self.queue.appendleft(job)

    def _give_up_queue(self) -> None:
        while self.queue:
            job = self.queue.popleft()
            self.report(JobResult(job.key, job.experiment.label, "stopped", "It was not begun."))

    def _close(self) -> None:
        self.halt.set()
        for worker in self.workers:
            worker.pipe.close()
        for worker in self.workers:
            worker.process.join(0.1 if worker.job is None else 10)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


def _serve(pipe: Connection, halt: Any, parent: int) -> None:
    """The life of a worker. Ctrl-C is for the parent, which asks the workers to stop; without it they stop too."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    last = [0.0]

    def stop() -> bool:
        return bool(halt.is_set()) or os.getppid() != parent

    def tell(key: str, share: float) -> None:
        if time.monotonic() - last[0] >= _LOOK:
            last[0] = time.monotonic()
            _send(pipe, (key, share))

    _send(pipe, None)
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        _send(pipe, work(job, stop=stop, on_share=partial(tell, job.key)))


def _send(pipe: Connection, news: object) -> None:
    """Tell the parent; when it is gone there is nobody to tell, and ``stop`` sees that."""
    try:
        pipe.send(news)
    except OSError:
        return
