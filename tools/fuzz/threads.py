"""Measure shared models in eight threads beside a training loop, and report every difference from doing it alone.

``python -m fuzz.threads --calls 1000`` lets each thread make 1,000 calls. All instruments take turns on two models: one
rests in a mixture of train and eval mode, the other is being trained by the main thread. Of the first, every number
must be the one that a single thread finds. The training must give, bit for bit, the weights that it gives alone, with
its hooks called and its gradients computed at each step. The exit code is 1 if anything is different. ``--report``
names a JSON file to which the result is written.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import regionscope as rs
from fuzz.report import version
from regionscope.monitor import Monitor

THREADS = 8
X = torch.randn(10, 3, generator=torch.Generator().manual_seed(0))
Y = torch.arange(10) % 3

Instrument = Callable[[nn.Module], Any]

INSTRUMENTS: dict[str, Instrument] = {
    "line": lambda net: rs.linear_regions(net, rs.Segment(X[0], X[1])).vertices.tolist(),
    "plane": lambda net: rs.linear_regions(net, rs.Simplex(X[:3])).by_layer,
    "space": lambda net: rs.linear_regions(net, rs.Simplex(X[:4])).n_linear_regions,
    "decision": lambda net: rs.decision_regions(net, rs.Box(X[0], X[1:3], 0.5)).boundary.tolist(),
    "exact": lambda net: rs.region_count(net, X, slices=3, method="exact").counts.tolist(),
    "grid": lambda net: rs.region_count(net, X, slices=3, grid=50).counts.tolist(),
    "refined": lambda net: rs.region_count(net, X, dim=2, slices=2, grid=8, method="refined").counts.tolist(),
    "linear count": lambda net: rs.measures.linear_region_count(net, X, slices=3).counts.tolist(),
    "local complexity": lambda net: rs.local_complexity(net, X, dims=2, radius=0.3).total.tolist(),
    "deformation": lambda net: [size.tolist() for size in rs.complexity.deformation(net, X, dims=2).diameter.values()],
    "sharpness": lambda net: rs.measures.sharpness(net, X, Y, tolerance=1e-2),
    "output margin": lambda net: rs.measures.output_margin(net, X, Y),
    "error rate": lambda net: rs.measures.error_rate(net, X, Y),
    "norms": lambda net: rs.measures.parameter_norms(net),
    "monitor": lambda net: [row.value for row in _monitor()(0, net)],
    "pickled program": lambda net: pickle.loads(pickle.dumps(rs.trace(net, (3,))))(X).tolist(),
}


def _monitor() -> Monitor:
    return Monitor({"regions": lambda net: rs.region_count(net, X, slices=3), "mode": lambda net: float(net.training)})


@dataclass(frozen=True)
class Outcome:
    """What eight threads did: calls of instruments, steps of the training beside them, and what was different."""

    calls: int
    steps: int
    faults: tuple[str, ...]


def run(calls: int) -> Outcome:
    """Make ``calls`` calls in each thread while a training loop runs."""
    resting, training = _resting(), _Training()
    wanted = {name: repr(measure(deepcopy(resting))) for name, measure in INSTRUMENTS.items()}
    _Training().run(1, [])  # with the first optimizer torch imports its compiler, which adds filters of warnings
    before = _state(resting), _settings()
    faults: list[str] = []
    with ThreadPoolExecutor(THREADS) as pool:
        jobs = [pool.submit(_measure, i, calls, resting, training.model, wanted, faults) for i in range(THREADS)]
        steps = training.run(jobs, faults)
    for job in jobs:
        job.result()
    if _state(resting) != before[0]:
        faults.append("the modes, weights or buffers of the shared model have changed")
    if _settings() != before[1]:
        faults.append("settings of torch or of Python have changed")
    alone = _Training()
    alone.run(steps, faults)
    if _state(training.model) != _state(alone.model):
        faults.append("the training ended with other weights than alone")
    return Outcome(THREADS * calls, steps, tuple(dict.fromkeys(faults)))


def _network(seed: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3)
        )


def _resting() -> nn.Sequential:
    model = _network(1)
    model[1].eval()
    return model


def _measure(
    start: int, calls: int, resting: nn.Module, trained: nn.Module, wanted: dict[str, str], faults: list[str]
) -> None:
    """Call the instruments in turn, each fourth time on the model in training, whose numbers nobody knows."""
    names = list(INSTRUMENTS)
    for i in range(calls):
        name = names[(2 * start + i) % len(names)]
        try:
            if i % 4 == 3:
                INSTRUMENTS[name](trained)
            elif (found := repr(INSTRUMENTS[name](resting))) != wanted[name]:
                faults.append(f"{name}: expected {wanted[name]}, got {found}")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a fault
            faults.append(f"{name}: {type(error).__name__}: {error}")


class _Training:
    """A training loop with dropout, batch normalisation and a hook, and checks of each of its steps."""

    def __init__(self) -> None:
        self.model = _network(2)
        self.fired = 0
        self.model.register_forward_hook(self._hook)

    def _hook(self, module: nn.Module, args: Any, output: Tensor) -> None:
        self.fired += module is self.model

    def run(self, until: int | list[Future[None]], faults: list[str]) -> int:
        """Train for so many steps, or until all jobs are done. Return the number of steps."""
        torch.manual_seed(3)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        steps = 0
        while steps < until if isinstance(until, int) else not all(job.done() for job in until):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(X), Y)
            if not loss.requires_grad:
                faults.append("training: the loss has no gradient")
                break
            loss.backward()
            optimizer.step()
            steps += 1
            if self.fired != steps:
                faults.append("training: the hook did not fire")
            if not all(part.training for part in self.model.modules()):
                faults.append("training: a module is in eval mode")
            if any(value.grad is None for value in self.model.parameters()):
                faults.append("training: a parameter has no gradient")
        return steps


def _state(model: nn.Module) -> list[object]:
    return [[part.training for part in model.modules()], [value.tolist() for value in model.state_dict().values()]]


def _settings() -> list[object]:
    """What measuring could leave behind in the process."""
    cuda = torch.backends.cuda
    return [
        nn.Module.__call__,
        nn.Module.__getattr__,
        torch.relu,
        nn.functional.relu,
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        (cuda.flash_sdp_enabled(), cuda.math_sdp_enabled(), cuda.mem_efficient_sdp_enabled()),
        warnings.filters[:],
        torch.is_grad_enabled(),
        torch.get_num_threads(),
        threading.active_count(),
    ]


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="fuzz.threads", description=__doc__)
    parser.add_argument("--calls", type=int, default=1000, help="number of calls in each thread")
    parser.add_argument("--report", type=Path, metavar="FILE", help="JSON file to write the result to")
    options = parser.parse_args()
    start = time.perf_counter()
    found = run(options.calls)
    seconds = time.perf_counter() - start
    print(f"{found.calls} calls in {THREADS} threads beside {found.steps} training steps, {seconds:.0f} s")
    for fault in found.faults:
        print(fault)
    print(f"{len(found.faults)} faults")
    if options.report is not None:
        report = {"regionscope": version(), "threads": THREADS, **asdict(found), "seconds": round(seconds)}
        options.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
