"""The listeners and the callback with the real libraries."""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from regionscope.errors import InputError
from regionscope.lab.monitor import (
    Monitor,
    TensorBoard,
    WeightsAndBiases,
    every,
    lightning_callback,
    transformers_callback,
)
from regionscope.lab.zoo import mlp


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


INPUTS = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
LOOK = {"regions": lambda m: rs.region_count(m, INPUTS, slices=5), "weight": lambda m: next(m.parameters()).norm()}


@pytest.fixture
def fit(tmp_path: Path) -> Callable[..., Any]:
    """Trains a small network with Lightning for two epochs of five batches."""
    lightning: Any = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp([2, 8, 2])

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)

        def training_step(self, batch: list[Tensor], index: int) -> Tensor:
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.TensorDataset(INPUTS, (INPUTS[:, 0] > 0).long())

    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(data)

    def fit(callbacks: list[Any], *, endless: bool = False, **options: Any) -> Module:
        module = Module()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lightning's advice on workers and logging
            trainer = lightning.Trainer(
                max_epochs=2, callbacks=callbacks, enable_checkpointing=False, enable_progress_bar=False,
                enable_model_summary=False, accelerator="cpu", default_root_dir=tmp_path,
                **{"logger": False, **options},
            )  # fmt: skip
            trainer.fit(module, torch.utils.data.DataLoader(Endless() if endless else data, batch_size=4))
        return module

    return fit


def test_a_tiny_lightning_fit(fit: Callable[..., Any]) -> None:
    steps = Monitor(LOOK, every(4))
    epochs = Monitor(LOOK, "every epoch")
    watched = fit([lightning_callback(steps), lightning_callback(epochs, model=lambda module: module.net)])
    alone = fit([])
    assert steps.values("regions")[0] == [0, 4, 8, 10]
    assert epochs.values("regions")[0] == [0, 5, 10]
    assert epochs.values("regions")[1][-1] == rs.region_count(watched.net, INPUTS, slices=5).value
    assert all(torch.equal(a, b) for a, b in zip(watched.parameters(), alone.parameters(), strict=True))
    together = Monitor(LOOK, "every epoch")
    fit([lightning_callback(together)], accumulate_grad_batches=2)  # steps over 2, 2 and 1 batches
    assert together.values("regions")[0] == [0, 3, 6]
    with pytest.raises(InputError, match="a trainer that knows the number of its batches"):
        fit([lightning_callback(Monitor(LOOK, "every epoch"))], endless=True)


def test_rows_go_to_the_loggers_of_lightning(fit: Callable[..., Any], tmp_path: Path) -> None:
    logger = pytest.importorskip("lightning.pytorch").loggers.CSVLogger(tmp_path, name="csv", version=0)
    logged = Monitor({"m": measured}, every(4))
    fit([lightning_callback(logged)], logger=logger)
    with (tmp_path / "csv" / "version_0" / "metrics.csv").open() as file:
        found = [row for row in csv.DictReader(file) if row["m"]]
    assert [int(row["step"]) for row in found] == [0, 4, 8, 10]
    assert [float(row["m"]) for row in found] == pytest.approx(logged.values("m")[1])
    assert {(row["m/stderr"], row["m.exact"]) for row in found} == {("0.25", "2.0")}


def test_a_tiny_transformers_training(tmp_path: Path) -> None:
    transformers: Any = pytest.importorskip("transformers", reason="needs the transformers extra")
    pytest.importorskip("accelerate", reason="needs the transformers extra")

    class Config(transformers.PretrainedConfig):
        model_type = "tiny"

    class Classifier(transformers.PreTrainedModel):
        config_class = Config

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.net = mlp([2, 8, 2])
            self.post_init()

        def forward(self, x: Tensor, labels: Tensor | None = None) -> Any:
            logits = self.net(x)
            loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
            return transformers.modeling_outputs.SequenceClassifierOutput(loss=loss, logits=logits)

    data = [{"x": one, "labels": int(one[0] > 0)} for one in INPUTS]

    def fit(monitors: list[Monitor]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            args = transformers.TrainingArguments(
                output_dir=str(tmp_path), num_train_epochs=2, per_device_train_batch_size=4, report_to=[],
                save_strategy="no", use_cpu=True, disable_tqdm=True, logging_strategy="no",
            )  # fmt: skip
            trainer = transformers.Trainer(model=Classifier(Config()), args=args, train_dataset=data)
            for monitor in monitors:
                part = (lambda model: model.net) if "regions" not in monitor.names else None
                trainer.add_callback(transformers_callback(monitor, trainer, model=part))
            trainer.train()
        return trainer

    steps, epochs = Monitor({"m": measured}, every(4)), Monitor({"n": measured}, "every epoch")
    whole = Monitor({"regions": lambda m: rs.region_count(m, INPUTS, slices=5, output="logits")}, every(10))
    watched, alone = fit([steps, epochs, whole]), fit([])
    assert whole.values("regions")[0] == [0, 10]
    assert whole.values("regions")[1][-1] == rs.region_count(watched.model.net, INPUTS, slices=5).value
    assert steps.values("m")[0] == [0, 4, 8, 10]
    assert epochs.values("n")[0] == [0, 5, 10]
    logged = [row for row in watched.state.log_history if "m" in row]
    assert [row["step"] for row in logged] == [0, 4, 8, 10]
    assert [row["m"] for row in logged] == steps.values("m")[1]
    assert {(row["m/stderr"], row["m.exact"]) for row in logged} == {(0.25, 2.0)}
    pairs = zip(watched.model.parameters(), alone.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


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
