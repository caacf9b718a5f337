"""Exact attributions beside quadrature, and what the answers of a partition cost beside the partition.

python benchmarks/bench_attributions.py                                      # MLP and CNN on the CPU
python benchmarks/bench_attributions.py --device cuda --network resnet18     # JSON in benchmarks/results/

The networks are trained for a short while on scikit-learn's digits, enlarged to 28 x 28 (MLP) or 3 x 32 x 32 pixels;
without scikit-learn on noisy random images of ten classes, which the JSON says. Promises: attributions of the MLP cost
less than 3 times the partition of their paths, extremes and topology less than 20% of the partition of a triangle.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

import regionscope as rs
from regionscope.exact.questions.quadrature_steps import RULES
from regionscope_lab import zoo
from regionscope_lab.data import Dataset
from regionscope_lab.train import Training, train
from results import write
from timing import busy_seconds

STEPS = (20, 50, 300, 1000)
TOLERANCE, K_MAX = 0.01, 1000
SHAPES = {"mlp": (784,), "cnn": (3, 32, 32), "resnet18": (3, 32, 32)}
INPUTS = {"mlp": 5, "cnn": 2, "resnet18": 1}
EPOCHS = {"mlp": 10, "cnn": 2, "resnet18": 3}


def images() -> tuple[str, Tensor, Tensor]:
    """What they are, gray images (n, 1, 8, 8) in [0, 1], and their labels."""
    if importlib.util.find_spec("sklearn"):
        from sklearn.datasets import load_digits

        digits = load_digits()
        return "digits", torch.from_numpy(digits.images / 16).float()[:, None], torch.from_numpy(digits.target)
    generator = torch.Generator().manual_seed(0)
    classes = torch.rand(10, 1, 8, 8, generator=generator)
    labels = torch.randint(10, (1797,), generator=generator)
    noise = torch.rand(1797, 1, 8, 8, generator=generator)
    return "random images", 0.6 * classes[labels] + 0.4 * noise, labels


def build(name: str) -> nn.Module:
    if name == "mlp":
        return zoo.mlp([784, 256, 256, 10], seed=0)
    return zoo.build(name, classes=10, input_shape=SHAPES[name], seed=0, **({"width": 8} if name == "cnn" else {}))


def trained(name: str, device: str) -> tuple[str, nn.Module, Tensor]:
    """The data's name, the network, and the inputs to attribute (n, *input_shape)."""
    what, small, labels = images()
    shape = SHAPES[name]
    side = 28 if len(shape) == 1 else shape[1]
    large = interpolate(small, size=(side, side), mode="bilinear", align_corners=False)
    rows = large.flatten(1) if len(shape) == 1 else large.expand(-1, *shape)
    model = build(name)
    training = Training(epochs=EPOCHS[name], optimizer="adam", lr=1e-3, batch_size=64)
    train(model, Dataset(what, rows[50:].contiguous(), labels[50:], 10), training, seed=0, device=device)
    return what, model.to(device).eval(), rows[: INPUTS[name]].contiguous()


def seconds(work: Callable[[], object], device: str, repeats: int) -> float:
    """The shortest of ``repeats`` runs, after one to warm up: of the clock on a GPU, else of the processor."""
    taken = [busy_seconds(work, device) for _ in range(repeats + 1)]
    return min(taken[1:] or taken)


def attributions(name: str, device: str, repeats: int) -> dict[str, object]:
    """One row: errors of quadrature, steps needed, and the cost of exact attributions beside the partition."""
    what, model, rows = trained(name, device)
    with torch.no_grad():
        target = model(rows.to(device)).argmax(1)
    program = rs.trace(model, SHAPES[name])
    paths = [rs.Segment(torch.zeros(SHAPES[name], dtype=torch.float64), row.double()) for row in rows]
    partition = seconds(lambda: rs.linear_regions(program, paths), device, repeats)
    answers: list[rs.Attributions] = []
    exact = seconds(lambda: answers.append(rs.integrated_gradients(program, rows, target=target)), device, repeats)
    found = answers[-1]
    needed = found.steps_needed(TOLERANCE, k_max=K_MAX)
    errors = {rule: {str(k): float(needed.errors[rule][:, k - 1].mean()) for k in STEPS} for rule in RULES}
    return {
        "network": name,
        "data": what,
        "inputs": len(rows),
        "pieces": statistics.mean(found.pieces.tolist()),
        "gap": float(found.gap.max()),
        "errors": errors,
        "steps_needed": needed.steps,
        "partition (s)": partition,
        "attributions (s)": exact,
        "attributions / partition": exact / partition,
    }


def answers(device: str, repeats: int) -> dict[str, object]:
    """Extremes and topology on a triangle of three inputs of the MLP, beside the partitions that they need."""
    what, model, rows = trained("mlp", device)
    triangle = rs.Simplex(rows[:3].double())
    program = rs.trace(model, SHAPES["mlp"])
    linear = seconds(lambda: rs.linear_regions(program, triangle), device, repeats)
    decision = seconds(lambda: rs.decision_regions(program, triangle), device, repeats)
    part, dec = rs.linear_regions(program, triangle), rs.decision_regions(program, triangle)
    extremes = seconds(lambda: part.extremes((0, 1)), device, repeats)
    topology = seconds(lambda: dec.topology(), device, repeats)
    return {
        "data": what,
        "regions": len(part),
        "linear_regions (s)": linear,
        "decision_regions (s)": decision,
        "extremes (s)": extremes,
        "topology (s)": topology,
        "extremes / linear_regions": extremes / linear,
        "topology / decision_regions": topology / decision,
    }


def print_row(row: dict[str, object]) -> None:
    errors = row["errors"]["gausslegendre"]
    print(f"{row['network']} ({row['data']}): {row['pieces']:,.0f} pieces on average, gap {row['gap']:.1e}")
    print("  error of Gauss-Legendre: " + ", ".join(f"{float(errors[str(k)]):.2%} at {k}" for k in STEPS))
    print(f"  steps needed for {TOLERANCE:.0%}: {row['steps_needed']}")
    print(
        f"  partition {row['partition (s)']:.3g} s, attributions {row['attributions (s)']:.3g} s: "
        f"{row['attributions / partition']:.2f} times{' (promise: below 3)' if row['network'] == 'mlp' else ''}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", action="append", choices=list(SHAPES), help="default: mlp and cnn")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    networks = args.network or ["mlp", "cnn"]
    document: dict[str, Any] = {"rows": []}
    for name in networks:
        row = attributions(name, args.device, args.repeats if name == "mlp" else 0)
        print_row(row)
        document["rows"].append(row)
        write(f"attributions-{args.device}", document, args.device)
    if "mlp" in networks:
        document["answers"] = found = answers(args.device, args.repeats)
        for name in ("extremes / linear_regions", "topology / decision_regions"):
            print(f"{name}: {found[name]:.1%} of {found['regions']:,} regions (promise: below 20%)")
        write(f"attributions-{args.device}", document, args.device)


if __name__ == "__main__":
    main()
