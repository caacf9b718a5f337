"""The listeners with the real libraries, and the errors where a library is missing."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import regionscope as rs
from regionscope.errors import InputError
from regionscope.monitor import (
    Monitor,
    TensorBoard,
    WeightsAndBiases,
    every,
    lightning_callback,
    transformers_callback,
)
from regionscope_lab.zoo import mlp


def measured(model: nn.Module) -> dict[str, Any]:
    return {"": rs.Estimate(float(next(model.parameters()).detach().sum()), 0.25, 4), "exact": 2}


def test_tensorboard_holds_the_rows(tmp_path: Path) -> None:
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with pytest.raises(rs.InputError, match=r"got NoneType\. Pass a string"):
        TensorBoard(None)
    board = TensorBoard(tmp_path)
    monitor = Monitor({"m": measured}, every(2), listeners=[board])
    for step in range(5):
        monitor(step, mlp([2, 2], seed=step))
    board.close()
    events = event_accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert {"m", "m/stderr", "m.exact"} == set(events.Tags()["scalars"])
    found = [(event.step, event.value) for event in events.Scalars("m")]
    assert [step for step, _ in found] == [0, 2, 4]
    assert [value for _, value in found] == pytest.approx(monitor.values("m")[1], rel=1e-6)
    assert monitor.failures == []


def test_weights_and_biases_hears_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    for name in ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = wandb.init(mode="offline", project="test", dir=str(tmp_path), settings=wandb.Settings(console="off"))
        monitor = Monitor({"m": measured}, every(2), listeners=[WeightsAndBiases(run)])
        for step in range(5):
            run.log({"loss": 1.0}, step=10 * step)  # the user's own numbers, on another axis
            monitor(step, mlp([2, 2], seed=step))
        summary = dict(run.summary)
        run.finish()
    assert monitor.failures == []
    assert summary["m"] == pytest.approx(monitor.values("m")[1][-1])
    assert summary["m/stderr"] == 0.25
    assert summary["regionscope/step"] == 4
    assert list(tmp_path.rglob("*.wandb"))
    with pytest.raises(InputError, match=r"wandb\.init\(\) returns"):
        WeightsAndBiases("run")


@pytest.mark.parametrize(
    ("library", "use"),
    [
        ("tensorboard", TensorBoard),
        ("lightning", lambda _: lightning_callback(Monitor({"a": measured}))),
        ("transformers", lambda _: transformers_callback(Monitor({"a": measured}), None)),
    ],
)
def test_a_missing_library_is_named(
    library: str, use: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in list(sys.modules):
        if name.split(".")[0] == library or name.startswith("torch.utils.tensorboard"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=r"pip install 'regionscope\[(track|transformers)\]'"):
        use(tmp_path)


def test_a_callback_needs_a_monitor() -> None:
    with pytest.raises(InputError, match=r"Expected a Monitor for monitor, got dict\. Make one with rs\.Monitor"):
        lightning_callback({"regions": len})
    with pytest.raises(InputError, match="Expected a Monitor for monitor, got list"):
        transformers_callback([], None)
