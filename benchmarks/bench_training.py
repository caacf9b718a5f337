"""Images a second that one GPU trains ResNet18 on, by one process or by several at once.

python benchmarks/bench_training.py --device cuda                                # one process, batches of 256
python benchmarks/bench_training.py --device cuda --processes 3 --compile        # three, batches of 256, 512 and 1,024
Images are random. Every process warms up for two epochs; all then train for the same seconds, and their rates add up.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from itertools import cycle, islice
from typing import Any

import torch

from regionscope_lab import zoo
from regionscope_lab.config import Training
from regionscope_lab.data import Dataset
from regionscope_lab.train import EpochRow, train

IMAGES = 25_600  # whole batches only


class Enough(Exception):
    """The seconds are over."""


def measure(args: argparse.Namespace, batch: int, begin: Any, rates: Any) -> None:
    """Train until the time is over, and put images a second, and the seconds of the first epoch, into ``rates``."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(IMAGES, 3, args.side, args.side, generator=generator)
    data = Dataset("noise", images, torch.randint(10, (IMAGES,), generator=generator), 10)
    model = zoo.build(args.network, classes=10, input_shape=(3, args.side, args.side), seed=0)
    training = Training(epochs=10**6, lr=0.1, batch_size=batch, precision=args.precision, evaluate_every=10**6)
    ends: list[float] = []
    first: list[float] = []

    def after(row: EpochRow) -> None:
        if args.device == "cuda":
            torch.cuda.synchronize()
        if row.epoch == 1:
            first.append(row.seconds)
        if row.epoch == 2:
            begin.wait(300)
        if row.epoch >= 2:
            ends.append(time.perf_counter())
        if row.epoch > 2 and ends[-1] - ends[0] > args.seconds:
            raise Enough

    try:
        train(model, data, training, device=args.device, replay=True, compiled=args.compile, on_epoch=after)
    except Enough:
        rates.put((batch, IMAGES * (len(ends) - 1) / (ends[-1] - ends[0]), first[0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--batches", type=int, nargs="+", default=[256, 512, 1024])
    parser.add_argument("--side", type=int, default=32, help="Height and width of an image.")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    begin, rates = context.Barrier(args.processes), context.Queue()
    workers = [
        context.Process(target=measure, args=(args, batch, begin, rates))
        for batch in islice(cycle(args.batches), args.processes)
    ]
    for worker in workers:
        worker.start()
    found = sorted(rates.get(timeout=400) for _ in workers)
    for worker in workers:
        worker.join()
    each = ", ".join(f"batch {batch}: {rate:,.0f} (first epoch {first:.1f} s)" for batch, rate, first in found)
    how = "compiled" if args.compile else "plain"
    print(
        f"{args.network}, {args.processes} processes, {how}: {sum(rate for _, rate, _ in found):,.0f} images/s; {each}"
    )


if __name__ == "__main__":
    main()
