"""Hand-made runs of the studies of Li et al., and the grades of an outcome."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regionscope_lab.config import DataSpec, Experiment, NetworkSpec, Training
from regionscope_lab.papers.li2025 import paper
from regionscope_lab.papers.study import Outcome
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.store import RunFolder

MEASURES = ("regions", "regions_test", "regions_random", "regions_2d", "regions_3d", "regions_4d", "regions_5d")


def made(
    folder: Path,
    numbers: dict[str, float],
    *,
    train: float = 0.0,
    test: float = 0.1,
    seed: int = 0,
    status: str = "finished",
    rows: Iterable[dict[str, Any]] = (),
    network: str = "mlp",
    **training: Any,
) -> RunFolder:
    """A stored run with these results."""
    options = {"epochs": 10, **training}
    experiment = Experiment(
        data=DataSpec(name="digits"), network=NetworkSpec(name=network), training=Training(**options), seed=seed
    )
    run = RunFolder.create(folder, experiment)
    with run.claim():
        run.append({"stderr": None, "seconds": 0.0, **row} for row in rows)
        measures = {name: {"value": value, "stderr": None} for name, value in numbers.items()}
        result = {"status": status, "train_error": train, "test_error": test, "gap": test - train, "measures": measures}
        run.finish(result)
    return run


def planted(
    folder: Path, *, sign: float = 1.0, others: float = 0.0, network: str = "mlp", **training: Any
) -> list[RunFolder]:
    """Nine settings whose counts fall with the rate, rise with the batch, and go with the gap by ``sign``."""
    runs = []
    for i, lr in enumerate((0.1, 0.01, 0.001)):
        for j, batch in enumerate((16, 32, 64)):
            level = 3 * i + j
            counts = dict.fromkeys(MEASURES, 2 + 0.1 * level) | {"regions_refined": 2.05 + 0.1 * level}
            counts |= {f"regions_from_{a}_to_{b}": 3.0 - a + 0.1 * level for a, b in paper.RANGES if a < 0}
            noise = (0.5, 0.1, 0.9, 0.3, 0.7, 0.2, 0.8, 0.4, 0.6)[level]
            weak = {"distance": noise + others * level, "norm.l2": noise, "margin": noise}
            test = 0.2 + sign * 0.01 * level + 0.001 * noise
            setting = {"lr": lr, "batch_size": batch, **training}
            runs.append(made(folder, counts | weak, test=test, network=network, **setting))
    return runs


def grades(outcome: Outcome) -> dict[str, Grade]:
    return {claim.what: claim.verdict.grade for claim in outcome.claims}
