"""Exact regions and level sets in space, beside the published edge-subdivision program as a black box.

git clone https://github.com/arturs-berzins/relu_edge_subdivision peer
python benchmarks/bench_edge_subdivision.py --peer peer [--rounds 5] [--threads 2] [--device cuda]
python benchmarks/bench_edge_subdivision.py --peer peer --publish      # also docs/benchmarks/

Berzins 2023, "Polyhedral Complex Extraction from ReLU Networks using Edge Subdivision". That program states no licence,
so nothing of it is part of this project. It computes vertices, edges and a sign vector for each vertex in float32, cuts
by the output unit too, and has no regions or faces. For ``linear_regions`` it therefore gets the network without its
output layer, which has the same vertices; for ``level_set`` it gets the whole network and its option to drop edges that
no further unit cuts. Both programs run in turn, ``--rounds`` times, and the least time of each counts.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import regionscope as rs
from bench_space import torus
from bench_surface import in_turn, off_surface, write_results
from exact_cases import mlp


def cases(peer: Path) -> list[tuple[str, nn.Sequential, float, tuple[str, ...]]]:
    """Name, network, radius of the cube, and what to compute."""
    both = "linear_regions", "level_set"
    bunny = mlp(3, 16, 16, 16, 1)
    weights = torch.load(peer / "models" / "3,3x16,relu,bunny", map_location="cpu", weights_only=True)
    bunny.load_state_dict({f"{2 * int(key.split('.')[1])}.{key.split('.')[2]}": one for key, one in weights.items()})
    return [
        ("3-[64]^3-1", mlp(3, 64, 64, 64, 1), 1.0, ("linear_regions",)),
        ("3-[32]^4-1", mlp(3, 32, 32, 32, 32, 1), 1.0, ("linear_regions",)),
        ("torus, 3-[16]^3-1", torus(), 1.0, both),
        ("bunny, 3-[16]^3-1", bunny, 0.5, both),
    ]


def their_network(model: nn.Sequential, *, output: bool) -> nn.Module:
    """The same weights in the class that the published program reads."""
    from NN import Net  # type: ignore[import-not-found]

    layers = [layer for layer in model if isinstance(layer, nn.Linear)][: None if output else -1]
    made: nn.Module = Net([3, *[layer.out_features for layer in layers]])
    for ours, theirs in zip(layers, made.fcs, strict=True):
        theirs.load_state_dict(ours.state_dict())
    return made


def edge_subdivision(network: nn.Module, radius: float, device: str, *, prune: bool) -> tuple[Any, ...]:
    """Vertices, edges and sign vectors of the published program."""
    from edge_subdivision import skeletal_subdivision  # type: ignore[import-not-found]

    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        found: tuple[Any, ...] = skeletal_subdivision(network, bbox=(-radius, radius), device=device, prune=prune)
    return found


def measure(name: str, model: nn.Sequential, radius: float, work: str, args: argparse.Namespace) -> dict[str, Any]:
    """One row: numbers of this package first, those of the published program second."""
    prune = work == "level_set"
    box = rs.Box(torch.zeros(3), torch.eye(3), radius)
    ours, theirs = model.to(args.device), their_network(model, output=prune)

    def wait(found: Any) -> Any:
        if args.device == "cuda":
            torch.cuda.synchronize()
        return found

    methods = {
        "ours": lambda: wait(getattr(rs, work)(ours, box)),
        "theirs": lambda: wait(edge_subdivision(theirs, radius, args.device, prune=prune)),
    }
    (seconds, cpu, found), (their_seconds, their_cpu, (points, edges, signs)) = in_turn(methods, args.rounds).values()
    if prune:  # the sign of the output is the last one
        points = points[signs[:, -1] == 0]
    row = {
        "network": name, "work": work, "radius": radius, "count": len(found), "edges": len(edges),
        "vertices": [len(found.vertices), len(points)], "seconds": [seconds, their_seconds], "cpu": [cpu, their_cpu],
    }  # fmt: skip
    if prune:
        exact = model.double().cpu()
        row["distance"] = [off_surface(exact, each.cpu())[1] for each in (found.points, points)]
        model.float()
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, help="a clone of the published program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--publish", action="store_true", help="also write to docs/benchmarks/")
    args = parser.parse_args()
    if args.peer is None:
        print("Skipped: no --peer. Clone https://github.com/arturs-berzins/relu_edge_subdivision and pass its folder.")
        return
    sys.path.append(str(args.peer.resolve()))
    torch.set_num_threads(args.threads)
    rows = [
        measure(name, model, radius, work, args) for name, model, radius, works in cases(args.peer) for work in works
    ]
    commit = subprocess.run(["git", "-C", args.peer, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    programs = ["regionscope", f"edge subdivision, {commit.stdout.strip()[:7]}"]
    document = {"rounds": args.rounds, "programs": programs, "rows": rows}
    write_results(f"edge-subdivision-{args.device}", document, args.device, publish=args.publish)


if __name__ == "__main__":
    main()
