"""Count regions of random small networks with regionscope and with exact arithmetic, and report where they differ.

``python -m fuzz --seeds 0:1000`` compares the networks of these seeds and adds them to the report. Seeds that are
already in the report are skipped, so an interrupted run resumes. ``--recheck`` repeats the networks whose counts
differ. ``--show SEED`` prints one network with its differences. The exit code is 1 if the report has mismatches.
Seeds from 3,000,000 on have long dot products, those from 4,000,000 on layers of every scale, and those from
5,000,000 on random graphs of operators; there a difference is a mismatch unless the result warns (``n_undecided``) or
is refused (``CheckFailed``). Seeds from 6,000,000 on have smooth functions, and their proven maps are compared with
evaluations at 20,000 points; those from 7,000,000 on at 1,000,000 points.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

from fuzz.networks import Network
from fuzz.report import Report, outcome, records_of, version

TOGETHER = 40  # seeds that a worker takes at a time


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=_range, default=(0, 1000), metavar="FIRST:END", help="range of seeds")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    parser.add_argument(
        "--report", type=Path, default=Path("docs/fuzz.json"), help="JSON file that results are added to"
    )
    parser.add_argument("--recheck", action="store_true", help="repeat the networks of the report whose counts differ")
    parser.add_argument("--show", type=int, metavar="SEED", help="print one network and its differences")
    options = parser.parse_args()
    if options.show is not None:
        return _show(options.show)
    report = Report.load(options.report)
    seeds = sorted(report.differing) if options.recheck else report.missing(*options.seeds)
    chunks = [seeds[i : i + TOGETHER] for i in range(0, len(seeds), TOGETHER)]
    now, saved = version(), time.monotonic()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        options.workers, mp_context=spawn, initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        for job in as_completed([pool.submit(records_of, chunk) for chunk in chunks]):
            records = job.result()
            if options.recheck:
                report.replace(records, now)
            else:
                report.add(records, now)
            if time.monotonic() > saved + 10:
                report.save(options.report)
                saved = time.monotonic()
                print(report.table().splitlines()[-1], flush=True)
    report.save(options.report)
    print(report.table())
    return 1 if report.lists()[0] else 0


def _range(text: str) -> tuple[int, int]:
    first, colon, end = text.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise argparse.ArgumentTypeError(f"expected FIRST:END with FIRST < END, got {text!r}")
    return int(first), int(end)


def _show(seed: int) -> int:
    found = outcome(seed)
    net = found.network
    print(f"seed {seed}: {net.family}, weights {net.weights_kind!r}, computed in {net.dtype}")
    if isinstance(net, Network):
        print(f"layers: {net.layers}\nslice: {net.place}\nweights: {net.weights}")
    else:
        print(net)
    for each in found.differences:
        print(f"{each.what}: expected {each.expected}, got {each.found}{' (close to a tie)' if each.close else ''}")
    return 1 if found.differences else 0


if __name__ == "__main__":
    sys.exit(main())
