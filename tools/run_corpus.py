"""Test a tool that counts regions on the corpus, through one function.

    python tools/run_corpus.py --adapter corpus_adapters:regionscope --report report.json

An adapter takes a ``Case`` and returns the counts that it knows, a dictionary with some of the keys of ``case.counts``
("activation_by_layer", "activation", "linear", "decision", "labels", "topology"); or None if the tool does not support
the network. An exception counts as an error of the tool. Nothing here needs regionscope: ``case.model()`` is a plain
``nn.Sequential``, and ``case.layers``, ``case.weights`` and ``case.slice`` are plain numbers.
"""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

from fuzz.modules import build

CORPUS = Path(__file__).parent.parent / "corpus"


@dataclass(frozen=True)
class Case:
    """A network of the corpus, as its file states it; corpus/README.md explains every field.

    layers: names and arguments of torch layers. weights: by parameter name. slice: origin, basis, kind (segment,
    simplex or box) and radius. counts: the certified numbers.
    """

    name: str
    family: str
    weights_kind: str
    seed: int
    dim: int
    layers: list[Any]
    weights: dict[str, Any]
    slice: dict[str, Any]
    counts: dict[str, Any]

    def model(self) -> nn.Sequential:
        """The network as a float64 module."""
        module = build(self.layers).double()
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(torch.tensor(self.weights[name], dtype=torch.float64).reshape(parameter.shape))
        return module


Adapter = Callable[[Case], dict[str, Any] | None]


def cases(folder: Path = CORPUS) -> Iterator[Case]:
    """All networks of the corpus, by name."""
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        yield Case(**{name: document[name] for name in Case.__dataclass_fields__})


@dataclass(frozen=True)
class Outcome:
    """What a tool said about a case. status: "right", "wrong", "error" or "unsupported"; details: where it errs."""

    case: Case
    status: str
    details: str
    seconds: float


def test(adapter: Adapter, case: Case) -> Outcome:
    """Compare the counts of a tool with the certified ones."""
    start = time.perf_counter()
    try:
        found = adapter(case)
    except Exception as fault:  # noqa: BLE001 - whatever the tool raises is its answer
        return Outcome(case, "error", f"{type(fault).__name__}: {fault}"[:100], time.perf_counter() - start)
    seconds = time.perf_counter() - start
    if found is None:
        return Outcome(case, "unsupported", "", seconds)
    wrong = [
        f"{key} is {value}, true is {case.counts[key]}" for key, value in found.items() if value != case.counts[key]
    ]
    return Outcome(case, "wrong" if wrong else "right", "; ".join(wrong), seconds)


def limited(adapter: Adapter, seconds: float) -> Adapter:
    """The adapter with an error after some seconds."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"{seconds:g} s are over")

    def run(case: Case) -> dict[str, Any] | None:
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return adapter(case)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    return run


def table(outcomes: list[Outcome]) -> str:
    """A row for each family and dimension, and a line for each case that is wrong."""
    statuses = ("right", "wrong", "error", "unsupported")
    count = Counter((one.case.family, one.case.dim, one.status) for one in outcomes)
    groups = sorted({(one.case.family, one.case.dim) for one in outcomes})
    lines = [f"{'family':<12} {'dim':>3} " + " ".join(f"{status:>11}" for status in statuses)]
    for family, dim in groups:
        lines.append(f"{family:<12} {dim:>3} " + " ".join(f"{count[family, dim, status]:>11}" for status in statuses))
    totals = Counter(one.status for one in outcomes)
    lines.append(f"{'all':<12} {'':>3} " + " ".join(f"{totals[status]:>11}" for status in statuses))
    lines += [f"{one.case.name} ({one.case.weights_kind}): {one.details}" for one in outcomes if one.details]
    lines.append(f"{sum(one.seconds for one in outcomes):.1f} s")
    return "\n".join(lines)


def report(adapter: str, outcomes: list[Outcome]) -> dict[str, Any]:
    """All outcomes, ready for JSON: how many of each status, and for each network its status and seconds."""
    return {
        "adapter": adapter,
        "networks": len(outcomes),
        "statuses": dict(Counter(one.status for one in outcomes)),
        "seconds": round(sum(one.seconds for one in outcomes), 1),
        "cases": {
            one.case.name: {"status": one.status, "seconds": round(one.seconds, 3)}
            | ({"details": one.details} if one.details else {})
            for one in outcomes
        },
    }


def main() -> int:
    """Parse the command line, run, and print the table; the exit code is 1 if a count is wrong."""
    parser = argparse.ArgumentParser(
        prog="run_corpus", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--adapter", default="corpus_adapters:regionscope", metavar="MODULE:FUNCTION")
    parser.add_argument("--folder", type=Path, default=CORPUS, help="folder of the corpus")
    parser.add_argument("--family", help="only this family")
    parser.add_argument("--limit", type=float, help="seconds for each network, after which it counts as an error")
    parser.add_argument("--report", type=Path, help="JSON file for the outcome of every network")
    options = parser.parse_args()
    module, _, function = options.adapter.partition(":")
    sys.path.append(str(Path.cwd()))  # adapters of your own stand where you run this
    adapter: Adapter = getattr(importlib.import_module(module), function)
    if options.limit is not None:
        adapter = limited(adapter, options.limit)
    chosen = (case for case in cases(options.folder) if options.family in (None, case.family))
    outcomes = []
    for case in chosen:
        outcomes.append(test(adapter, case))
        if len(outcomes) % 20 == 0:
            print(f"{len(outcomes)} networks", file=sys.stderr, flush=True)
    print(table(outcomes))
    if options.report is not None:
        options.report.write_text(json.dumps(report(options.adapter, outcomes), indent=1) + "\n", encoding="utf-8")
    return 1 if any(one.status == "wrong" for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
