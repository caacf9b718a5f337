"""The callbacks for Lightning and Hugging Face and the other listeners, with the real libraries, and without them."""

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
from regionscope.monitor import (
    Monitor,
    Row,
    TensorBoard,
    WeightsAndBiases,
    append_rows,
    every,
    lightning_callback,
    read_rows,
    transformers_callback,
)
from regionscope_lab.zoo import mlp


def measured(model: nn.Module) -> dict[str, Any]:
    return {"": rs.Estimate(first_weight(model), 0.25, 4), "exact": 2}


def first_weight(model: nn.Module) -> float:
    return float(next(model.parameters()).detach().sum())


INPUTS = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
LOOK = {"regions": lambda m: rs.region_count(m, INPUTS, slices=5), "weight": lambda m: next(m.parameters()).norm()}


def test_a_callback_needs_a_monitor() -> None:
    with pytest.raises(InputError, match=r"Expected a Monitor for monitor, got dict\. Make one with rs\.Monitor"):
        lightning_callback({"regions": len})
    with pytest.raises(InputError, match="Expected a Monitor for monitor, got list"):
        transformers_callback([], None)


@pytest.fixture
def fit(tmp_path: Path) -> Callable[..., Any]:
    """Trains a small network with Lightning for two epochs of five batches."""
    lightning: Any = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):
        def __init__(self, steps_per_batch: int) -> None:
            super().__init__()
            self.net = mlp([2, 8, 2])
            self.automatic_optimization = steps_per_batch == 1
            self.steps_per_batch = steps_per_batch

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)

        def training_step(self, batch: list[Tensor], index: int) -> Tensor:
            for _ in range(self.steps_per_batch):
                loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
                if not self.automatic_optimization:
                    self.manual_backward(loss)
                    self.optimizers().step()
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.TensorDataset(INPUTS, (INPUTS[:, 0] > 0).long())

    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(data)

    def fit(
        callbacks: list[Any],
        *,
        endless: bool = False,
        steps_per_batch: int = 1,
        resume: Path | None = None,
        **options: Any,
    ) -> Module:
        module = Module(steps_per_batch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lightning's advice on workers and logging
            trainer = lightning.Trainer(
                callbacks=callbacks, enable_checkpointing=False, enable_progress_bar=False,
                enable_model_summary=False, accelerator="cpu", default_root_dir=tmp_path,
                **{"logger": False, "max_epochs": 2, **options},
            )  # fmt: skip
            loader = torch.utils.data.DataLoader(Endless() if endless else data, batch_size=4)
            trainer.fit(module, loader, ckpt_path=resume)
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
    unknown = Monitor(LOOK, "every epoch")
    fit([lightning_callback(unknown)], endless=True)  # the trainer does not know the number of its batches
    assert unknown.values("regions")[0] == [0, 5, 10]
    own = Monitor(LOOK, "every 2 epochs", steps_per_epoch=2)
    fit([lightning_callback(own)])
    assert own.values("regions")[0] == [0, 4, 8, 10]


def test_epochs_of_lightning_whose_steps_are_not_batches(fit: Callable[..., Any]) -> None:
    scheduler = pytest.importorskip("lightning.pytorch").callbacks.GradientAccumulationScheduler
    growing = Monitor(LOOK, "every epoch")
    fit([scheduler({0: 5, 1: 1}), lightning_callback(growing)])
    assert growing.values("weight")[0] == [0, 1, 6]
    twice, steps, ratios = Monitor(LOOK, "every epoch"), Monitor(LOOK, every(5)), Monitor(LOOK, "log 1 20 4")
    fit([lightning_callback(each) for each in (twice, steps, ratios)], steps_per_batch=2)
    assert twice.values("weight")[0] == [0, 10, 20]
    assert steps.values("weight")[0] == [0, 6, 10, 16, 20]  # 5 and 15 lie within a batch
    assert ratios.values("weight")[0] == [2, 4, 8, 20]  # 1, 3, 7 and 20


def test_the_last_row_of_lightning_is_that_of_the_last_step(fit: Callable[..., Any]) -> None:
    lightning: Any = pytest.importorskip("lightning.pytorch")
    seen: list[float] = []

    class Replace(lightning.Callback):
        """Writes other weights at the end, as those that average weights do."""

        def on_train_batch_end(self, trainer: Any, module: nn.Module, *_: Any) -> None:
            seen.append(first_weight(module))

        def on_train_end(self, trainer: Any, module: nn.Module) -> None:
            nn.init.zeros_(next(module.parameters()))

    for options in ({}, {"max_epochs": -1, "max_steps": 8}):
        monitor = Monitor({"m": first_weight}, every(7))
        fit([Replace(), lightning_callback(monitor)], **options)
        assert monitor.values("m")[1][1:] == [seen[6], seen[-1]]
        seen.clear()


def killed(path: Path) -> Monitor:
    """A monitor that finds the rows of a training that was killed after step 8; the names of others stay."""
    rows = [Row(step, name, 99.0, None, 0.0) for step in (0, 4, 8) for name in ("m", "other")]
    append_rows(path, rows)
    return Monitor({"m": first_weight}, every(4), path=path)


def test_a_resumed_lightning_fit_measures_again(fit: Callable[..., Any], tmp_path: Path) -> None:
    lightning: Any = pytest.importorskip("lightning.pytorch")

    class Save(lightning.Callback):
        def on_train_end(self, trainer: Any, module: nn.Module) -> None:
            trainer.save_checkpoint(tmp_path / "last.ckpt")

    fit([Save()], max_epochs=1)
    monitor = killed(tmp_path / "rows.jsonl")
    module = fit([lightning_callback(monitor)], resume=tmp_path / "last.ckpt")
    steps, values = monitor.values("m")
    assert steps == [0, 4, 8, 10]
    assert values[:2] == [99.0, 99.0]  # from before the checkpoint
    assert values[2] != 99.0
    assert values[3] == first_weight(module)
    rows = read_rows(tmp_path / "rows.jsonl")
    assert [row.step for row in rows if row.name == "other"] == [0, 4, 8]
    assert tuple(row for row in rows if row.name == "m") == monitor.rows


def test_rows_go_to_the_loggers_of_lightning(fit: Callable[..., Any], tmp_path: Path) -> None:
    logger = pytest.importorskip("lightning.pytorch").loggers.CSVLogger(tmp_path, name="csv", version=0)
    logged = Monitor({"m": measured}, every(4))
    fit([lightning_callback(logged)], logger=logger)
    with (tmp_path / "csv" / "version_0" / "metrics.csv").open() as file:
        found = [row for row in csv.DictReader(file) if row["m"]]
    assert [int(row["step"]) for row in found] == [0, 4, 8, 10]
    assert [float(row["m"]) for row in found] == pytest.approx(logged.values("m")[1])
    assert {(row["m/stderr"], row["m.exact"]) for row in found} == {("0.25", "2.0")}


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Any]:
    """Trains a small network with Hugging Face for two epochs of five batches; returns the trainer."""
    transformers: Any = pytest.importorskip("transformers", reason="needs the transformers extra")
    accelerate: Any = pytest.importorskip("accelerate", reason="needs the transformers extra")

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

    def train(
        monitors: list[Monitor], *, callbacks: Any = (), later: Any = (), resume: bool = False, **options: Any
    ) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            args = transformers.TrainingArguments(
                output_dir=str(tmp_path), num_train_epochs=2, per_device_train_batch_size=4, report_to=[],
                use_cpu=True, disable_tqdm=True, **{"logging_strategy": "no", "save_strategy": "no", **options},
            )  # fmt: skip
            trainer = transformers.Trainer(
                model=Classifier(Config()), args=args, train_dataset=data, eval_dataset=data, callbacks=list(callbacks)
            )
            for monitor in monitors:
                part = (lambda model: model.net) if "regions" not in monitor.names else None
                trainer.add_callback(transformers_callback(monitor, trainer, model=part))
            for callback in later:
                trainer.add_callback(callback)
            trainer.train(resume_from_checkpoint=resume)
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        return trainer

    return train


def test_a_tiny_transformers_training(train: Callable[..., Any]) -> None:
    steps, epochs = Monitor({"m": measured}, every(4)), Monitor({"n": measured}, "every epoch")
    whole = Monitor({"regions": lambda m: rs.region_count(m, INPUTS, slices=5, output="logits")}, every(10))
    watched, alone = train([steps, epochs, whole], logging_strategy="steps", logging_steps=2), train([])
    assert [row["step"] for row in watched.state.log_history if "loss" in row] == [2, 4, 6, 8, 10]
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


@pytest.mark.slow
def test_a_resumed_transformers_training_measures_again(train: Callable[..., Any], tmp_path: Path) -> None:
    train([], save_strategy="steps", save_steps=5, max_steps=5)
    monitor = killed(tmp_path / "rows.jsonl")
    trainer = train([monitor], resume=True)
    assert monitor.values("m")[0] == [0, 4, 8, 10]
    assert monitor.values("m")[1][1] == 99.0
    assert monitor.values("m")[1][2] != 99.0
    assert monitor.values("m")[1][3] == first_weight(trainer.model)


def test_mixed_precision_of_the_trainer_changes_no_number(train: Callable[..., Any]) -> None:
    monitor = Monitor({"regions": lambda m: float(m(INPUTS).logits.double().sum())}, every(10))
    net = train([monitor], bf16=True).model.net
    assert monitor.values("regions")[1][-1] == float(net(INPUTS).detach().double().sum())


@pytest.mark.slow
@pytest.mark.parametrize("stops", ["never", "before the monitor", "after the monitor"])
def test_the_last_row_is_not_that_of_the_best_model(train: Callable[..., Any], stops: str) -> None:
    transformers: Any = pytest.importorskip("transformers")
    seen: dict[int, float] = {}

    class Keep(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            seen[state.global_step] = first_weight(kwargs["model"])

    class Stop(transformers.TrainerCallback):
        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            control.should_training_stop |= state.global_step == 6

    monitor = Monitor({"m": first_weight}, every(4))
    trainer = train(
        [monitor], callbacks=[Keep(), *([Stop()] if stops == "before the monitor" else [])],
        later=[Stop()] if stops == "after the monitor" else [], learning_rate=0.01, load_best_model_at_end=True,
        greater_is_better=True, metric_for_best_model="eval_loss", eval_strategy="steps", save_strategy="steps",
        eval_steps=2, save_steps=2,
    )  # fmt: skip
    assert trainer.state.best_global_step == 2
    assert monitor.values("m")[0] == ([0, 4, 8, 10] if stops == "never" else [0, 4, 6])
    assert monitor.values("m")[1][1:] == [seen[step] for step in monitor.values("m")[0][1:]]


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
