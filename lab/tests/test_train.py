"""The training loop: its steps, its reports, precision, divergence, evaluation, and the small trainer beside it."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from careless import Doubled
from regionscope.errors import InputError
from regionscope.network import select_output
from regionscope_lab.config import DataSpec, Training
from regionscope_lab.data import Dataset, DataSplit, load
from regionscope_lab.train import EpochRow, TrainingProgress, TrainState, evaluate, evaluation, train
from regionscope_lab.train.evaluation import error_share
from regionscope_lab.zoo import mlp

PLAIN = Training(epochs=3, optimizer="adam", lr=1e-2, batch_size=32, schedule="constant")


def halves(n: int = 200, seed: int = 0) -> Dataset:
    """Points labelled by the sign of their first entry."""
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed))
    return Dataset("halves", x, (x[:, 0] > 0).long(), 2)


def images(n: int = 40, seed: int = 0) -> Dataset:
    x = torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    return Dataset("images", x, (x.mean((1, 2, 3)) > 0).long() + (x[:, 0, 0, 0] > 0), 3)


def split() -> DataSplit:
    return DataSplit(halves(), halves(100, seed=1))


def flat(model: nn.Module) -> Tensor:
    return torch.cat([value.detach().double().flatten() for value in model.state_dict().values()])


def by_hand(model: nn.Module, data: Dataset, training: Training, seed: int) -> list[float]:
    """The slow obvious twin: torch's own optimiser and scheduler, one batch at a time."""
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "adagrad": torch.optim.Adagrad}
    own = {"lr": training.lr, "weight_decay": training.weight_decay}
    optimizer = (
        torch.optim.SGD(model.parameters(), momentum=training.momentum, **own)
        if training.optimizer == "sgd"
        else kinds[training.optimizer](model.parameters(), **own)
    )
    total = training.epochs * math.ceil(len(data) / training.batch_size)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
    order = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(training.epochs):
        for batch in torch.randperm(len(data), generator=order).split(training.batch_size):
            outputs, labels = model(data.inputs[batch]), data.labels[batch]
            if training.loss == "mse":
                loss = ((outputs - functional.one_hot(labels, outputs.shape[1])) ** 2).mean()
            else:
                loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if training.schedule == "cosine":
                cosine.step()
            losses.append(float(loss.detach()) * len(batch))
    return losses


@pytest.mark.parametrize(
    ("optimizer", "schedule", "loss"),
    [
        ("sgd", "cosine", "mse"),
        ("adam", "constant", "cross_entropy"),
        ("adamw", "cosine", "cross_entropy"),
        ("adagrad", "constant", "mse"),
    ],
)
def test_it_is_the_loop_one_would_write(optimizer: str, schedule: str, loss: str) -> None:
    training = replace(PLAIN, optimizer=optimizer, schedule=schedule, loss=loss, weight_decay=0.01, precision="float64")
    data = halves(70)
    ours, theirs = mlp([2, 8, 2]).double(), mlp([2, 8, 2]).double()
    found = train(ours, data, training, seed=4)
    losses = by_hand(theirs, Dataset("", data.inputs.double(), data.labels, 2), training, seed=4)
    assert found.steps == 9
    assert torch.allclose(flat(ours), flat(theirs), rtol=1e-9, atol=1e-12)
    assert found.last.loss == pytest.approx(sum(losses[6:]) / 70, rel=1e-9)


def test_it_learns_and_tells() -> None:
    model = mlp([2, 16, 2])
    rows: list[EpochRow] = []
    told: list[TrainingProgress] = []
    training = replace(PLAIN, epochs=30, evaluate_every=4)
    done = train(model, split(), training, on_epoch=rows.append, on_progress=told.append)
    assert done.status == "finished"
    assert [row.epoch for row in rows] == list(range(1, 31))
    assert [row.epoch for row in rows if row.train_error is not None] == [*range(4, 29, 4), 30]
    assert done.history == tuple(rows)
    assert rows[-1].loss < rows[0].loss / 2
    loss, accuracy = evaluate(model, split().train.inputs, split().train.labels)
    assert loss < 0.3
    assert rows[-1].train_error == pytest.approx(1 - accuracy)
    assert rows[-1].test_error is not None
    assert rows[-1].test_error < 0.1
    assert told[-1].step == told[-1].total_steps == done.steps == 30 * 7
    assert told[-1].epoch == 30


def test_the_same_seed_gives_the_same_weights_even_with_dropout() -> None:
    def weights(seed: int, *, inner: float = 0.3) -> Tensor:
        model = mlp([2, 16, 2])
        train(nn.Sequential(*model[:2], nn.Dropout(inner), *model[2:]), halves(), PLAIN, seed=seed)
        return flat(model)

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))
    assert not torch.equal(weights(1), weights(1, inner=0.0))


def test_no_trace_is_left_and_callbacks_change_nothing() -> None:
    model, calm = (nn.Sequential(*mlp([2, 8], seed=1), nn.Dropout(0.5), *mlp([8, 2], seed=2)).eval() for _ in range(2))
    model[1].train()
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002

    def careless(*things: object) -> None:
        torch.rand(3)
        np.random.rand()  # noqa: NPY002
        random.random()
        if isinstance(things[-1], nn.Module):
            things[-1].eval()
            things[-1][0].weight.data.zero_()

    often = replace(PLAIN, checkpoints="every 1 steps")
    train(model, split(), often, on_epoch=careless, on_progress=careless, on_checkpoint=careless, save_state=careless)
    train(calm, split(), PLAIN)
    evaluate(model, split().train.inputs, split().train.labels)
    assert torch.equal(flat(model), flat(calm))
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (np.random.get_state()[1].tolist(), random.getstate())  # noqa: NPY002
    assert [module.training for module in model] == [False, True, False]
    assert not model.training


def test_a_model_that_writes_into_its_inputs_leaves_the_data_alone() -> None:
    inputs = torch.randn(24, 3, generator=torch.Generator().manual_seed(0))
    weights = []
    for in_place in (True, False):
        data = Dataset("own", inputs.clone(), torch.arange(24) % 2, 2)
        model = nn.Sequential(Doubled(in_place), *mlp([3, 6, 2], seed=1))
        train(model, DataSplit(data, data), Training(epochs=3, batch_size=8, lr=0.1))
        assert torch.equal(data.inputs, inputs)
        weights.append(torch.cat([value.detach().flatten() for value in model.parameters()]))
    assert torch.equal(*weights)


def test_checkpoints_come_at_their_schedule() -> None:
    seen: list[tuple[int, int]] = []
    for words in ("end", "start and every 2 epochs", "log 1 100 3"):
        training = replace(PLAIN, checkpoints=words)
        train(mlp([2, 4, 2]), halves(), training, on_checkpoint=lambda step, epoch, model: seen.append((step, epoch)))
    assert seen == [(21, 3), (0, 0), (14, 2), (21, 3), (1, 0), (10, 1), (21, 3)]


def test_the_last_batch_may_be_short_but_not_one_with_batch_norm() -> None:
    normal = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    assert train(mlp([2, 4, 2]), halves(33), PLAIN).steps == 6
    assert train(normal, halves(33), PLAIN).steps == 3
    assert train(normal, halves(34), PLAIN).steps == 6
    with pytest.raises(InputError, match="at least 2 examples"):
        train(normal, halves(33), replace(PLAIN, batch_size=1))


@pytest.mark.parametrize("precision", ["float32", "float64", "bf16"])
def test_precision(precision: str) -> None:
    seen, model = [], mlp([2, 16, 2])
    model[0].register_forward_hook(lambda module, args, output: seen.append(output.dtype))
    done = train(model, halves(), replace(PLAIN, epochs=20, precision=precision))
    stored = torch.float64 if precision == "float64" else torch.float32
    assert model[0].weight.dtype is stored
    assert set(seen[1:]) == {torch.bfloat16 if precision == "bf16" else stored}  # the first looks at one example
    assert done.last.train_error is not None
    assert done.last.train_error < 0.1


def test_augmentation_changes_batches() -> None:
    def weights(**options: object) -> Tensor:
        model = nn.Sequential(nn.Flatten(), mlp([192, 8, 3], seed=1))
        train(model, images(), replace(PLAIN, batch_size=16, **options), seed=2)
        return flat(model)

    kinds: list[dict[str, object]] = [{}, {"augment": "crop_flip"}, {"mixup": 0.4}, {"mixup": 0.4, "loss": "mse"}]
    found = [weights(**each) for each in kinds]
    assert all(torch.equal(one, weights(**each)) for one, each in zip(found, kinds, strict=True))
    assert all(not torch.equal(found[i], found[j]) for i in range(4) for j in range(i))


@pytest.mark.parametrize(("optimizer", "batch"), [("sgd", 2), ("adam", 32)])
def test_divergence_is_a_status_and_seen_in_a_long_epoch(optimizer: str, batch: int) -> None:
    data = halves(2000)
    large = Dataset("large", data.inputs * 1e30, data.labels, 2)
    model = mlp([2, 4, 2]).eval()
    checkpoints: list[int] = []
    training = replace(PLAIN, optimizer=optimizer, lr=1e30, epochs=50, batch_size=batch)
    found = train(model, DataSplit(large, large), training, on_checkpoint=lambda s, e, m: checkpoints.append(s))
    assert found.status == "diverged"
    assert found.steps == 256 if batch == 2 else found.steps < 50 * 63
    assert not math.isfinite(found.last.loss) or not bool(torch.isfinite(flat(model)).all())
    assert not model.training
    assert checkpoints == []


def test_nan_outputs_are_wrong() -> None:
    data, broken = halves(10), mlp([2, 4, 2])
    with torch.no_grad():
        broken[2].bias[0] = math.nan
    assert error_share(broken, data.inputs, data.labels) == 1.0
    loss, accuracy = evaluate(broken, data.inputs, torch.zeros_like(data.labels))
    assert math.isnan(loss)
    assert accuracy == 0.0, "the largest of some NaN is found at 0, which is no answer"


def test_evaluation_by_hand() -> None:
    identity = nn.Identity()
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 1])
    loss, accuracy = evaluate(identity, logits, labels)
    assert loss == pytest.approx(float(nn.functional.cross_entropy(logits, labels)), rel=1e-12), "in float64"
    assert accuracy == 0.75
    assert evaluate(identity, logits, labels, loss="mse")[0] == pytest.approx((1 / 2 + 10 / 2) / 4)
    assert error_share(identity, logits, labels) == 0.25


def test_evaluation_in_small_batches_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    data, model = halves(50), mlp([2, 8, 2])
    whole = evaluate(model, data.inputs, data.labels), error_share(model, data.inputs, data.labels)
    for rows in (1, 7, 49, 50):
        monkeypatch.setitem(evaluation._NUMBERS, "cpu", 2 * rows)
        again = evaluate(model, data.inputs, data.labels)
        assert again[0] == pytest.approx(whole[0][0], rel=1e-6)
        assert (again[1], error_share(model, data.inputs, data.labels)) == (whole[0][1], whole[1])


NAN = Dataset("nan", torch.full((3, 2), torch.nan), torch.zeros(3, dtype=torch.long), 2)
SEVERAL = select_output(mlp([2, 4, 2]), lambda logits: {"logits": logits})


@pytest.mark.parametrize(
    ("model", "data", "training", "words"),
    [
        (mlp([2, 4, 2]), NAN, PLAIN, "NaN or infinite"),
        (mlp([3, 4, 2]), halves(), PLAIN, r"that takes inputs of shape \(2,\)"),
        (mlp([2, 4, 1]), halves(), PLAIN, r"outputs of shape \(1, 2\) .*got shape \(1, 1\)"),
        (SEVERAL, halves(), PLAIN, r'got a dict\. .*network = \{name = \.\.\., output = "logits"\}'),
        (mlp([2, 2]).requires_grad_(False), halves(), PLAIN, "with trainable parameters, got none"),
        (mlp([2, 4, 2]), halves(), replace(PLAIN, checkpoints="sometimes"), "Expected a schedule"),
        (mlp([2, 4, 2]), (halves().inputs, halves().labels), PLAIN, r"Expected a Dataset\(name, .*, got tuple"),
        (mlp([2, 4, 2]), halves(), {"epochs": 3}, r"Expected a Training for train\(\), got dict"),
        (mlp([2, 4, 2]), halves(), replace(PLAIN, augment="crop_flip"), "Expected images"),
    ],
)
def test_bad_input_gets_a_sentence(model: nn.Module, data: Any, training: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        train(model, data, training)


def test_an_output_is_selected_and_a_device_exists() -> None:
    assert train(select_output(SEVERAL, "logits"), halves(), PLAIN).status == "finished"
    with pytest.raises(InputError, match=r"Expected device .* this machine .* got 'cuda:99'"):
        train(mlp([2, 4, 2]), halves(), PLAIN, device="cuda:99")


@pytest.mark.parametrize(("n", "schedule", "weight_decay"), [(64, "constant", 0.0), (70, "cosine", 1e-2)])
def test_steps_in_numpy_are_those_of_torch_and_resume_bit_for_bit(n: int, schedule: str, weight_decay: float) -> None:
    """The last batch is whole, or not."""
    data = load(DataSpec(name="random_labels", n_train=n, n_test=10, seed=3)).train
    plan = Training(
        epochs=5, optimizer="adam", schedule=schedule, precision="float64", lr=0.01, weight_decay=weight_decay,
        batch_size=32, checkpoints="start and steps 4",
    )  # fmt: skip
    seen, states = dict[int, Tensor](), list[TrainState]()
    ours, theirs, again = (mlp([2, 8, 8, 2], seed=1).double() for _ in range(3))
    start = flat(ours)
    done = train(
        ours, data, plan, seed=4, numpy=True, save_state=states.append,
        on_checkpoint=lambda step, epoch, model: seen.update({step: flat(model)}),
    )  # fmt: skip
    known = train(theirs, data, plan, seed=4)
    assert list(seen) == [0, 4, done.steps]
    assert torch.equal(seen[0], start)
    assert torch.equal(seen[done.steps], flat(ours))
    torch.testing.assert_close(flat(ours), flat(theirs), rtol=1e-9, atol=1e-12)
    assert [row.loss for row in done.history] == pytest.approx([row.loss for row in known.history], rel=1e-9)
    assert not torch.equal(flat(ours), start)
    train(again, data, plan, seed=4, numpy=True, state=states[1])
    assert torch.equal(flat(again), flat(ours))


@pytest.mark.parametrize(
    ("model", "plan"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.ReLU()), PLAIN),
        (nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)), PLAIN),
        (nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2, bias=False)), PLAIN),
        (mlp([2, 4, 2]), replace(PLAIN, optimizer="sgd")),
        (mlp([2, 4, 2]), replace(PLAIN, loss="mse")),
        (mlp([2, 4, 2]), replace(PLAIN, mixup=0.5)),
    ],
)
def test_other_networks_and_settings_have_no_steps_in_numpy(model: nn.Module, plan: Training) -> None:
    with pytest.raises(InputError, match="Leave numpy out"):
        train(model, halves(), plan, numpy=True)
