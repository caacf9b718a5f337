"""A training that is killed and resumed, or whose steps are recorded, has the numbers of one that is left alone."""

from __future__ import annotations

import os
import signal
import time
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import forked
from devices import needs_cuda
from regionscope.errors import InputError
from regionscope.monitor import Monitor
from regionscope_lab import zoo
from regionscope_lab.config import Training
from regionscope_lab.data import Dataset, DataSplit
from regionscope_lab.train import TrainState, train
from regionscope_lab.train.state import optimizer_tensors, restore_optimizer
from regionscope_lab.train.step import CompiledStep, Replay, TrainingStep, set_rate
from regionscope_lab.zoo import mlp
from regionscope_lab.zoo.layers import basic_block

FULL = Training(
    epochs=3, optimizer="adam", lr=1e-2, weight_decay=1e-3, batch_size=8, schedule="cosine", augment="crop_flip",
    mixup=0.3, checkpoints="every 7 steps",
)  # fmt: skip


def data() -> DataSplit:
    x = torch.randn(100, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    whole = Dataset("images", x, (x.mean((1, 2, 3)) > 0).long(), 2)
    return DataSplit(replace(whole, inputs=x[:70], labels=whole.labels[:70]), whole)


def network() -> nn.Module:
    """Everything that holds or draws something while training: batch normalisation, dropout, two kinds of layers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(144, 2)
        )


class Killed(Exception):
    pass


def assert_same(one: nn.Module, other: nn.Module) -> None:
    a, b = one.state_dict(), other.state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a), [n for n in a if not torch.equal(a[n], b[n])]


VARIANTS = [
    FULL,
    replace(FULL, optimizer="sgd", mixup=0.0, lr=0.1),
    replace(FULL, optimizer="sgd", momentum=0.0, schedule="constant", augment="none"),
    replace(FULL, optimizer="adamw", loss="mse"),
    replace(FULL, optimizer="adagrad", precision="float64"),
    replace(FULL, precision="bf16", checkpoints="end"),
]


@pytest.mark.parametrize("training", VARIANTS, ids=lambda each: f"{each.optimizer}-{each.precision}-{each.loss}")
def test_interrupted_anywhere(training: Training, tmp_path: Path) -> None:
    """9 steps an epoch: in the first epoch, at ends of epochs, and one step before the last."""
    calm, broken, stops = network(), network(), [1, 5, 9, 18, 26]
    undisturbed = train(calm, data(), training, seed=5)

    def store(state: TrainState) -> None:
        if state.step in stops:
            state.save(tmp_path / f"{state.step}.safetensors")
        if state.step == stops[-1]:
            raise Killed

    with pytest.raises(Killed):
        train(broken, data(), replace(training), seed=5, save_state=store, state_every=-1.0)
    rows = [replace(row, seconds=0) for row in undisturbed.history]
    for stop in stops:
        state, resumed = TrainState.load(tmp_path / f"{stop}.safetensors"), network()
        assert state.step == stop
        found = train(resumed, data(), training, seed=5, state=state)
        assert_same(calm, resumed)
        assert [replace(row, seconds=0) for row in found.history] == rows
        assert found.steps == undisturbed.steps == 27


def test_a_finished_state_has_nothing_left_to_do(tmp_path: Path) -> None:
    kept: list[TrainState] = []
    model, again = network(), network()
    found = train(model, data(), FULL, save_state=kept.append)
    assert [state.step for state in kept] == [0, 7, 14, 21, 27]
    calls: list[int] = []
    back = train(again, data(), FULL, state=kept[-1], on_checkpoint=lambda step, epoch, model: calls.append(step))
    assert back.history == found.history
    assert calls == []
    assert_same(model, again)


def test_an_early_end_is_resumed_where_it_was() -> None:
    """What is scheduled for the end is stored and measured once, at the epoch that ends the training."""
    errors = [row.train_error for row in train(network(), data(), replace(FULL, epochs=6), seed=5).history]
    least = sorted(error for error in errors[:-1] if error is not None)[0]
    first = errors.index(least) + 1
    early = replace(FULL, epochs=6, stop_at_error=least + 1e-9, checkpoints="end")
    measured: list[int] = []

    def monitors() -> list[Monitor]:
        return [Monitor({"one": lambda model: measured.append(1) or 1.0}, "end")]

    model, kept = network(), list[TrainState]()
    found = train(model, data(), early, seed=5, monitors=monitors(), save_state=kept.append)
    assert len(found.history) == first < 6
    assert found.steps == found.last.step == 9 * first
    assert found.status == "finished"
    assert measured == [1]
    with pytest.raises(InputError, match=r"from 0 to below 1, got 1\.0"):
        replace(FULL, stop_at_error=1.0)
    for state, measures in ((kept[-1], 2), (None, 3)):
        again = network()
        resumed = train(again, data(), early, seed=5, monitors=monitors(), state=state)
        assert len(measured) == measures, "a state of the end was saved before its measures"
        assert [row.step for row in resumed.history] == [row.step for row in found.history]
        assert_same(model, again)


@pytest.mark.kill
def test_kill_minus_nine_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    file, (reading, writing) = tmp_path / "state.safetensors", os.pipe()

    def store(state: TrainState) -> None:
        state.save(file)
        os.write(writing, b"%d\n" % state.step)
        time.sleep(0.02)

    child = forked.start(lambda: train(network(), data(), FULL, seed=5, save_state=store, state_every=0.0))
    os.close(writing)
    with open(reading) as steps:
        try:
            assert next((line for line in steps if int(line) >= 12), None) is not None
            time.sleep(0.01)
        finally:
            code = forked.kill(child)
    assert code == -signal.SIGKILL
    state = TrainState.load(file)
    assert 12 <= state.step < 18, "in the second epoch of nine steps"
    calm, resumed = network(), network()
    train(calm, data(), FULL, seed=5)
    train(resumed, data(), FULL, seed=5, state=state)
    assert_same(calm, resumed)


def test_a_state_is_plain_and_comes_back(tmp_path: Path) -> None:
    kept: list[TrainState] = []
    train(network(), data(), FULL, save_state=kept.append)
    with pytest.raises(InputError, match=r"an existing folder for 'state\.safetensors'"):
        kept[2].save(tmp_path / "nowhere" / "state.safetensors")
    path = kept[2].save(tmp_path / "state.safetensors")
    kept[2].save(path)
    back = TrainState.load(path)
    assert list(path.parent.iterdir()) == [path]
    assert back.step == kept[2].step
    assert back.meta == kept[2].meta
    assert back.meta["training"] == asdict(FULL)
    assert set(back.tensors) == set(kept[2].tensors)
    assert all(torch.equal(back.tensors[name], tensor) for name, tensor in kept[2].tensors.items())


def test_states_that_do_not_fit(tmp_path: Path) -> None:
    kept: list[TrainState] = []
    train(network(), data(), FULL, save_state=kept.append)
    other = nn.Sequential(nn.Flatten(), mlp([64, 4, 2]))
    noise = torch.zeros(16, dtype=torch.uint8)
    from_cuda = [replace(kept[2], tensors={**kept[0].tensors, f"random.{name}": noise}) for name in ("augment", "cuda")]
    for model, split, training, seed, state, words in (
        (network(), data(), replace(FULL, lr=0.02), 0, kept[0], r"with lr 0\.02, got one with 0\.01"),
        (network(), data(), FULL, 1, kept[0], "with seed 1, got one with 0"),
        (network(), data().test, FULL, 0, kept[0], "the state of this training"),
        (other, data(), FULL, 0, kept[0], "the state of this network"),
        (network(), data(), FULL, 0, from_cuda[0], "the device type cpu, got another"),
        (network(), data(), FULL, 0, from_cuda[1], "the device type cpu, got another"),
    ):
        before = {name: value.clone() for name, value in model.state_dict().items()}
        with pytest.raises(InputError, match=words):
            train(model, split, training, seed=seed, state=state)
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    (tmp_path / "torn").write_bytes(kept[0].save(tmp_path / "whole").read_bytes()[:-50])
    (tmp_path / "text").write_text("hello")
    for name in ("torn", "text", "nothere"):
        with pytest.raises(InputError, match="Expected the state of a training"):
            TrainState.load(tmp_path / name)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_a_restored_optimizer_has_the_layout_of_its_parameters(kind: str) -> None:
    """Fused steps go through memory in order: a momentum laid out otherwise would meet the wrong weights."""
    x = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(0)).to(memory_format=torch.channels_last)

    def convolution() -> nn.Module:
        return nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)

    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        if kind == "adam":
            return torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)

    def step(model: nn.Module, chosen: torch.optim.Optimizer) -> None:
        chosen.zero_grad()
        model(x).square().mean().backward()
        chosen.step()

    calm, resumed = convolution(), convolution()
    ours, theirs = optimizer(calm), optimizer(resumed)
    step(calm, ours)
    resumed.load_state_dict(calm.state_dict())
    restore_optimizer(theirs, optimizer_tensors(ours))
    for parameter in resumed.parameters():
        held = [value for value in theirs.state[parameter].values() if value.shape == parameter.shape]
        assert len(held) == (2 if kind == "adam" else 1)
        assert {value.stride() for value in held} == {parameter.stride()}
    for _ in range(2):
        step(calm, ours)
        step(resumed, theirs)
        assert_same(calm, resumed)


def test_what_is_stored_is_stored_before_the_measures_and_they_are_made_up_for() -> None:
    kept: list[TrainState] = []
    times: list[str] = []

    def fails(model: nn.Module) -> float:
        if times:
            raise Killed
        times.append("start")
        return 0.0

    monitor = Monitor({"fails": fails}, "every 7 steps")
    with pytest.raises(Killed):
        train(network(), data(), FULL, monitors=[monitor], save_state=kept.append)
    assert [state.step for state in kept] == [0, 7]
    again = Monitor({"fails": lambda model: 1.0}, "every 7 steps")
    calm, resumed = network(), network()
    train(calm, data(), FULL)
    train(resumed, data(), FULL, monitors=[again], state=kept[-1])
    assert again.values("fails")[0] == [7, 14, 21, 27]
    assert_same(calm, resumed)


@needs_cuda
@pytest.mark.parametrize("training", [VARIANTS[i] for i in (0, 1, 5)], ids=["adam", "sgd", "adam in bf16"])
def test_interrupted_on_cuda(training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused optimisers, weights and images channels-last, dropout and augmentation drawn on the device."""
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)

    def deep() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            return nn.Sequential(
                nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Dropout(0.3),
                nn.Flatten(), nn.Linear(128, 2),
            )  # fmt: skip

    calm, broken, resumed = deep(), deep(), deep()
    undisturbed = train(calm, data(), training, seed=5, device="cuda")
    assert calm[3].weight.is_cuda
    assert calm[3].weight.stride()[1] == 1, "channels last"

    def store(state: TrainState) -> None:
        if state.step == 14:
            state.save(tmp_path / "state.safetensors")
            raise Killed

    with pytest.raises(Killed):
        train(broken, data(), training, seed=5, device="cuda", save_state=store, state_every=-1.0)
    found = train(
        resumed, data(), training, seed=5, device="cuda", state=TrainState.load(tmp_path / "state.safetensors")
    )
    assert_same(calm, resumed)
    assert [row.loss for row in found.history] == [row.loss for row in undisturbed.history]


TRAINING = Training(
    epochs=3, lr=0.05, momentum=0.9, weight_decay=1e-4, batch_size=16, schedule="cosine",
    precision="float64",  # in float32 the same training twice differs by 10% on a GPU: rounding grows at every step
)  # fmt: skip


def ten_batches(n: int = 150) -> DataSplit:
    """Ten batches an epoch, the last one shorter."""
    x = torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    whole = Dataset("images", x, (x.mean((1, 2, 3)) > 0).long(), 2)
    return DataSplit(whole, whole)


def resnet(seed: int = 0) -> nn.Module:
    """Batch normalisation, residual sums and strides."""
    return zoo.build("resnet18", classes=2, input_shape=(3, 8, 8), width=8, seed=seed)


def weights(model: nn.Module) -> Tensor:
    return torch.cat([value.detach().cpu().double().flatten() for value in model.state_dict().values()])


def test_a_compiled_step_takes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor needs a C++ compiler, so the tracing is real and the code is run as it was traced."""
    compiler = torch.compile
    monkeypatch.setattr(torch, "compile", lambda model, **options: compiler(model, backend="aot_eager", **options))
    with torch.random.fork_rng(devices=[]):  # one block of ``resnet``: every block is traced on its own
        small = nn.Sequential(basic_block(3, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    runs = []
    for kind in (TrainingStep, CompiledStep):
        model = deepcopy(small).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        step = kind(model, optimizer, nn.functional.cross_entropy, nullcontext)
        images = ten_batches().train
        losses = [float(step(images.inputs[i : i + 16].double(), images.labels[i : i + 16])) for i in (0, 16, 32)]
        runs.append((losses, weights(model)))
    assert runs[0][0] == pytest.approx(runs[1][0])
    torch.testing.assert_close(runs[0][1], runs[1][1])
    assert torch.backends.cudnn.benchmark is False


def test_only_whole_batches_take_the_recorded_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: nullcontext())
    monkeypatch.setattr(Replay, "_aside", lambda self, inputs, targets: self._recorded(inputs, targets))
    replay = Replay(lambda x, y: x.sum(), 3, torch.device("cpu"), recorded=lambda x, y: -x.sum())
    assert float(replay(torch.ones(2), torch.ones(2))) == 2
    assert float(replay(torch.ones(3), torch.ones(3))) == -3


def test_a_rate_is_set_in_place_where_it_is_a_tensor() -> None:
    parameter = [nn.Parameter(torch.zeros(1))]
    number = torch.optim.SGD(parameter, lr=0.1)
    set_rate(number, 0.5)
    assert number.param_groups[0]["lr"] == 0.5
    rate = torch.tensor(0.1)
    tensor = torch.optim.SGD(parameter, lr=rate)
    set_rate(tensor, 0.5)
    assert tensor.param_groups[0]["lr"] is rate
    assert float(rate) == 0.5


def test_the_first_steps_follow_the_work_of_their_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The current device may be another one than that of the training."""
    second = torch.device("cuda", 1)
    waited: list[tuple[str, str]] = []

    class Stream:
        def __init__(self, device: torch.device, name: str = "aside") -> None:
            self.device, self.name = device, name

        def wait_stream(self, other: Stream) -> None:
            waited.append((f"{self.name} of {self.device}", f"{other.name} of {other.device}"))

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device="cuda:0": Stream(torch.device(device), "main"))
    assert float(Replay(lambda inputs, targets: inputs.sum(), 3, second)(torch.ones(3), torch.ones(3))) == 3
    assert waited == [("aside of cuda:1", "main of cuda:1"), ("main of cuda:1", "aside of cuda:1")]


@needs_cuda
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_a_recorded_step_trains_as_a_plain_one_on_cuda(optimizer: str, schedule: str) -> None:
    lr = 0.05 if optimizer == "sgd" else 1e-3
    training = replace(TRAINING, optimizer=optimizer, schedule=schedule, lr=lr)
    plain, recorded = resnet(), resnet()
    first = train(plain, ten_batches(), training, device="cuda")
    second = train(recorded, ten_batches(), training, device="cuda", replay=True)
    for a, b in zip(first.history, second.history, strict=True):
        assert b.loss == pytest.approx(a.loss, rel=1e-4)
    assert float((weights(plain) - weights(recorded)).norm() / weights(plain).norm()) < 1e-4
    assert second.steps == 30


@needs_cuda
def test_a_recorded_training_is_resumed_on_cuda() -> None:
    kept: list[TrainState] = []
    whole, rest = resnet(), resnet(1)
    train(whole, ten_batches(), TRAINING, device="cuda", replay=True, save_state=kept.append, state_every=-1.0)
    state = next(one for one in kept if one.step == 17)
    train(rest, ten_batches(), TRAINING, device="cuda", replay=True, state=state)
    assert float((weights(whole) - weights(rest)).norm() / weights(whole).norm()) < 1e-4


@needs_cuda
def test_recorded_steps_draw_anew_on_cuda() -> None:
    replay = Replay(lambda inputs, targets: torch.rand((), device="cuda") + 0 * inputs.sum(), 4, torch.device("cuda"))
    inputs = torch.zeros(4, 2, device="cuda")
    drawn = {float(replay(inputs, inputs)) for _ in range(10)}
    assert len(drawn) == 10
