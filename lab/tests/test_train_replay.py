"""A step that is recorded as a CUDA graph trains as one that is not."""

from __future__ import annotations

from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from devices import needs_cuda
from regionscope_lab import zoo
from regionscope_lab.config import Training
from regionscope_lab.data import Dataset, DataSplit
from regionscope_lab.train import TrainState, train
from regionscope_lab.train.step import CompiledStep, Replay, TrainingStep, set_rate
from regionscope_lab.zoo.blocks import basic_block

TRAINING = Training(
    epochs=3, lr=0.05, momentum=0.9, weight_decay=1e-4, batch_size=16, schedule="cosine",
    precision="float64",  # in float32 the same training twice differs by 10% on a GPU: rounding grows at every step
)  # fmt: skip


def data(n: int = 150) -> DataSplit:
    """Ten batches an epoch, the last one shorter."""
    x = torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    whole = Dataset("images", x, (x.mean((1, 2, 3)) > 0).long(), 2)
    return DataSplit(whole, whole)


def network(seed: int = 0) -> nn.Module:
    """Batch normalisation, residual sums and strides."""
    return zoo.build("resnet18", classes=2, input_shape=(3, 8, 8), width=8, seed=seed)


def weights(model: nn.Module) -> Tensor:
    return torch.cat([value.detach().cpu().double().flatten() for value in model.state_dict().values()])


def test_on_a_cpu_nothing_is_recorded() -> None:
    plain, asked = network(), network()
    train(plain, data(), TRAINING)
    train(asked, data(), TRAINING, replay=True)
    assert torch.equal(weights(plain), weights(asked))


def test_a_compiled_step_takes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor needs a C++ compiler, so the tracing is real and the code is run as it was traced."""
    compiler = torch.compile
    monkeypatch.setattr(torch, "compile", lambda model, **options: compiler(model, backend="aot_eager", **options))
    with torch.random.fork_rng(devices=[]):  # one block of ``network``: every block is traced on its own
        small = nn.Sequential(basic_block(3, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    runs = []
    for kind in (TrainingStep, CompiledStep):
        model = deepcopy(small).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        step = kind(model, optimizer, nn.functional.cross_entropy, nullcontext)
        images = data().train
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
    plain, recorded = network(), network()
    first = train(plain, data(), training, device="cuda")
    second = train(recorded, data(), training, device="cuda", replay=True)
    for a, b in zip(first.history, second.history, strict=True):
        assert b.loss == pytest.approx(a.loss, rel=1e-4)
    assert float((weights(plain) - weights(recorded)).norm() / weights(plain).norm()) < 1e-4
    assert second.steps == 30


@needs_cuda
def test_a_compiled_step_trains_as_a_plain_one_on_cuda() -> None:
    plain, compiled = network(), network()
    first = train(plain, data(), TRAINING, device="cuda")
    second = train(compiled, data(), TRAINING, device="cuda", replay=True, compiled=True)
    for a, b in zip(first.history, second.history, strict=True):
        assert b.loss == pytest.approx(a.loss, rel=1e-4)
    assert float((weights(plain) - weights(compiled)).norm() / weights(plain).norm()) < 1e-4


@needs_cuda
def test_a_recorded_training_is_resumed_on_cuda() -> None:
    kept: list[TrainState] = []
    whole, rest = network(), network(1)
    train(whole, data(), TRAINING, device="cuda", replay=True, save_state=kept.append, state_every=-1.0)
    state = next(one for one in kept if one.step == 17)
    train(rest, data(), TRAINING, device="cuda", replay=True, state=state)
    assert float((weights(whole) - weights(rest)).norm() / weights(whole).norm()) < 1e-4


@needs_cuda
def test_recorded_steps_draw_anew_on_cuda() -> None:
    replay = Replay(lambda inputs, targets: torch.rand((), device="cuda") + 0 * inputs.sum(), 4, torch.device("cuda"))
    inputs = torch.zeros(4, 2, device="cuda")
    drawn = {float(replay(inputs, inputs)) for _ in range(10)}
    assert len(drawn) == 10
