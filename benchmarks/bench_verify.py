"""How long reading an ONNX file and deciding a property takes, and the peak memory of each; one process per instance.

python benchmarks/bench_verify.py                        # networks that it makes itself
python benchmarks/bench_verify.py --instances FOLDER     # FOLDER/instances.csv of VNN-COMP, for example tllverifybench
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regionscope as rs
from regionscope.network.onnx import reference_outputs
from results import FOLDER, write

PROPERTY = """(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(assert (<= X_0 2)) (assert (>= X_0 -2)) (assert (<= X_1 2)) (assert (>= X_1 -2))
(assert (>= Y_0 {}))
"""


def lattice(path: Path, n: int) -> None:
    """max over n of the min over n random affine functions of two inputs, with ReLU alone, as in tllverifybench."""
    import onnx

    random = np.random.default_rng(0)
    values: dict[str, Any] = {}
    nodes: list[Any] = []
    last = "x"

    def layer(weight: Any, bias: Any, relu: bool) -> None:
        nonlocal last
        i = len(values)
        values[f"w{i}"], values[f"b{i}"] = np.float32(weight), np.float32(bias)
        nodes.append(onnx.helper.make_node("Gemm", [last, f"w{i}", f"b{i}"], [f"h{i}"]))
        last = f"h{i}"
        if relu:
            nodes.append(onnx.helper.make_node("Relu", [last], [f"r{i}"]))
            last = f"r{i}"

    layer(random.normal(size=(2, n)), random.normal(size=n), False)
    chosen = random.integers(0, n, n * n)
    layer(np.eye(n)[chosen].T, np.zeros(n * n), False)
    size, sign = n * n, -1.0
    while size > 1:
        sign = -1.0 if size > n else 1.0
        half = size // 2
        pair = np.array([[1, -1, 1, -1], [1, -1, -1, 1]])
        layer(np.kron(np.eye(half), pair), np.zeros(4 * half), True)
        layer(np.kron(np.eye(half), np.array([[0.5], [-0.5], [sign / 2], [sign / 2]])), np.zeros(half), False)
        size = half
    nodes[-1].output[0] = "y"
    graph = onnx.helper.make_graph(
        nodes, "lattice",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 2])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 1])],
        [onnx.numpy_helper.from_array(value, name) for name, value in values.items()],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())


def measured(network: str, property: str, timeout: float) -> dict[str, Any]:
    """Read and decide one instance. Runs in a process of its own, so that the peak memory is that of the instance."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    model = rs.read_onnx(network)
    read = time.perf_counter() - start
    found = rs.verify(model, rs.read_vnnlib(property), timeout=timeout)
    total = time.perf_counter() - start
    witness = None if found.witness is None else reference_outputs(model, found.witness[None])[0].tolist()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "network": Path(network).name.split(".onnx")[0], "verdict": found.verdict, "margin": found.margin,
        "regions": found.n_regions, "read_seconds": read, "seconds": total, "peak_MiB": peak / 2**20,
        "witness_outputs": witness,
    }  # fmt: skip


def instances(folder: Path) -> list[tuple[str, str, float]]:
    found = []
    for network, property, limit in csv.reader((folder / "instances.csv").open()):
        paths = [
            next((p for p in (folder / name, folder / f"{name}.gz") if p.exists()), None)
            for name in (network, property)
        ]
        if paths[0] is not None and paths[1] is not None:
            found.append((str(paths[0]), str(paths[1]), float(limit)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="time and memory of read_onnx and verify")
    parser.add_argument("--instances", type=Path)
    parser.add_argument("--out", type=Path, default=FOLDER / "verify.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if importlib.util.find_spec("onnx") is None:
        print("The extra onnx is not installed; nothing is measured.")
        return
    context = multiprocessing.get_context("spawn")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        work = instances(options.instances) if options.instances else []
        for n in () if options.instances else (8, 16, 32):
            lattice(Path(folder) / f"lattice_{n}.onnx", n)
            for level in ("-1", "5"):
                (Path(folder) / f"{n}_{level}.vnnlib").write_text(PROPERTY.format(level))
                work.append((f"{folder}/lattice_{n}.onnx", f"{folder}/{n}_{level}.vnnlib", 600.0))
        for instance in work:
            with context.Pool(1) as pool:
                row = pool.apply(measured, instance)
            rows.append(row)
            print(
                f"{row['network']:<42} {row['verdict']:<8} margin {row['margin']:10.5g}  {row['regions']:6,} regions  "
                f"read {row['read_seconds']:5.1f} s  total {row['seconds']:5.1f} s  {row['peak_MiB']:6.0f} MiB",
                flush=True,
            )
    write(options.out.stem, {"rows": rows}, folder=options.out.parent)


if __name__ == "__main__":
    main()
