"""Networks trained together agree with networks trained one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.lab.config import Training
from regionscope.lab.data import Dataset, Split
from regionscope.lab.train import Progress, train, train_together
from regionscope.lab.zoo import mlp

TRAINING = Training(epochs=20, lr=0.05, batch_size=16, precision="float64")  # 5 steps an epoch: 100 steps


def halves(n: int = 70, seed: int = 0) -> Dataset:
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed))
    return Dataset("halves", x, (x[:, 0] * x[:, 1] > 0).long(), 2)


SPLIT = Split(halves(), halves(50, seed=1))


def flat(model: nn.Module) -> Tensor:
    return torch.cat([value.detach().double().flatten() for value in model.state_dict().values()])


def settings(optimizer: str, **others: object) -> list[Training]:
    base = replace(TRAINING, optimizer=optimizer, **others)  # type: ignore[arg-type]
    scale = {"sgd": 1.0, "adam": 0.1, "adamw": 0.1, "adagrad": 0.5}[optimizer]
    return [
        replace(base, lr=scale * 0.05, weight_decay=0.01),
        replace(base, lr=scale * 0.1, weight_decay=0.0, momentum=0.0),
        replace(base, lr=scale * 0.02, weight_decay=0.1, momentum=0.5),
    ]


class Branching(nn.Module):
    """Not a chain of layers: goes through vmap."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(2, 8), nn.Linear(8, 2), nn.LayerNorm(8)
        self.register_buffer("shift", torch.rand(2))
        self.b.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.a(x + self.shift))
        return self.b(self.norm(h) + h)  # type: ignore[no-any-return]


def chains() -> list[nn.Module]:
    return [nn.Sequential(nn.Flatten(), mlp([2, 8, 8, 2], seed=seed), nn.Tanh()) for seed in range(3)]


def branches() -> list[nn.Module]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return [Branching() for _ in range(3)]


def assert_agree(one_by_one: Sequence[nn.Module], together: Sequence[nn.Module]) -> None:
    for a, b in zip(one_by_one, together, strict=True):
        assert float((flat(a) - flat(b)).abs().max()) < 1e-9


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "adagrad"])
@pytest.mark.parametrize(("schedule", "loss"), [("cosine", "cross_entropy"), ("constant", "mse")])
@pytest.mark.parametrize("make", [chains, branches])
def test_a_hundred_steps_agree(optimizer: str, schedule: str, loss: str, make: object) -> None:
    assert callable(make)
    own = settings(optimizer, schedule=schedule, loss=loss)
    alone, together = make(), make()
    start = [flat(model) for model in together]
    single = [train(m, SPLIT, t, seed=s) for m, t, s in zip(alone, own, (5, 6, 7), strict=True)]
    found = train_together(together, SPLIT, own, seeds=[5, 6, 7])
    assert found[0].steps == 100
    assert_agree(alone, together)
    assert all(float((flat(m) - s).abs().max()) > 1e-3 for m, s in zip(together, start, strict=True))
    for one, other in zip(single, found, strict=True):
        assert one.status == other.status == "finished"
        for a, b in zip(one.history, other.history, strict=True):
            assert (a.epoch, a.step, a.train_error, a.test_error) == (b.epoch, b.step, b.train_error, b.test_error)
            assert a.loss == pytest.approx(b.loss, rel=1e-9)


def test_equal_settings_take_the_short_way_to_the_same_end() -> None:
    alone, together = chains(), chains()
    for i, model in enumerate(alone):
        train(model, SPLIT, replace(TRAINING, weight_decay=0.01), seed=i)
    train_together(together, SPLIT, replace(TRAINING, weight_decay=0.01))
    assert_agree(alone, together)


def test_one_member_is_one_training() -> None:
    alone, together = mlp([2, 8, 2]), mlp([2, 8, 2])
    train(alone, SPLIT.train, TRAINING, seed=3)
    found = train_together([together], SPLIT.train, TRAINING, seeds=[3])
    assert_agree([alone], [together])
    assert found[0].last.test_error is None


def test_a_member_that_diverges_leaves_the_others_alone() -> None:
    wild = [TRAINING, replace(TRAINING, lr=1e200), replace(TRAINING, lr=0.01)]
    models, calm = chains(), chains()
    models = [nn.Sequential(*list(model)[:-1]) for model in models]
    calm = [nn.Sequential(*list(model)[:-1]) for model in calm]
    found = train_together(models, SPLIT, wild, seeds=[0, 1, 2])
    assert [each.status for each in found] == ["finished", "diverged", "finished"]
    assert found[1].last.epoch < 20
    assert found[1].steps == found[1].last.step < 100
    assert found[1].last.train_error is not None
    train_together([calm[0], calm[2]], SPLIT, [wild[0], wild[2]], seeds=[0, 2])
    assert_agree([calm[0], calm[2]], [models[0], models[2]])
    assert not math.isfinite(float(flat(models[1]).sum()))


def test_nothing_random_is_touched_and_progress_is_told() -> None:
    state, told = torch.get_rng_state(), list[Progress]()
    found = train_together(chains(), SPLIT, replace(TRAINING, evaluate_every=7), on_progress=told.append)
    assert torch.equal(state, torch.get_rng_state())
    assert told[-1].step == told[-1].total_steps == 100
    assert [row.epoch for row in found[0].history if row.train_error is not None] == [7, 14, 20]


def test_refusals() -> None:
    def refused(models: Sequence[nn.Module], sentence: str, trainings: object = TRAINING, **more: object) -> None:
        with pytest.raises(InputError, match=sentence):
            train_together(models, SPLIT, trainings, **more)  # type: ignore[arg-type]

    two = [mlp([2, 4, 2]), mlp([2, 4, 2])]
    refused([], "no models")
    refused([nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))], "keeps running statistics")
    refused([nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1))], "is dropout")
    refused([mlp([2, 4, 2]), mlp([2, 5, 2])], "Model 1 is not built like model 0")
    refused([two[0], two[0]], "came twice")
    refused(two, "share batch_size; it came as 16 and 8", [TRAINING, replace(TRAINING, batch_size=8)])
    refused(two, "2 models and 1 trainings", [TRAINING])
    refused(two, "2 models and 1 seeds", seeds=[1])
    refused(two, "without augmentation, mixup and bf16", replace(TRAINING, mixup=0.1))
    refused([mlp([2, 4, 2]).requires_grad_(False)], "no trainable parameters")
