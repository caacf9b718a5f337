"""The small trainer takes the steps of ``train``, its slow twin."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regionscope.errors import InputError
from regionscope_lab.config import DataSpec, Training
from regionscope_lab.data import load
from regionscope_lab.train import train
from regionscope_lab.train.small_mlp import train_small
from regionscope_lab.zoo import mlp


@pytest.mark.parametrize("weight_decay", [0.0, 1e-2])
@pytest.mark.parametrize("n", [64, 70])  # the last batch is whole, or not
def test_the_weights_are_those_of_train(n: int, weight_decay: float) -> None:
    data = load(DataSpec(name="random_labels", n_train=n, n_test=10, seed=3)).train
    ours, theirs = (mlp([2, 8, 8, 2], seed=1).double() for _ in range(2))
    setting = {"lr": 0.01, "weight_decay": weight_decay, "batch_size": 32}
    train_small(ours, data.inputs, data.labels, epochs=[5], on_epoch=lambda *_: None, seed=4, **setting)
    plan = Training(epochs=5, optimizer="adam", schedule="constant", precision="float64", **setting)
    train(theirs, data, plan, seed=4)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-12)
    assert not torch.equal(ours[0].weight, mlp([2, 8, 8, 2], seed=1).double()[0].weight)


def test_looks_are_at_the_given_epochs_and_change_nothing() -> None:
    data = load(DataSpec(name="random_labels", n_train=40, n_test=10, seed=0)).train
    seen: dict[int, torch.Tensor] = {}
    first, second = mlp([2, 4, 2]), mlp([2, 4, 2])
    start = first[0].weight.clone()

    def look(epoch: int, model: nn.Sequential) -> None:
        seen[epoch] = model[0].weight.detach().clone()

    train_small(first, data.inputs, data.labels, epochs=[0, 2, 3], on_epoch=look)
    assert list(seen) == [0, 2, 3]
    assert torch.equal(seen[0], start)
    assert first[0].weight.dtype == torch.float32
    train_small(second, data.inputs, data.labels, epochs=[3], on_epoch=lambda *_: None)
    assert torch.equal(first[0].weight, second[0].weight)
    assert torch.equal(seen[3], first[0].weight)


@pytest.mark.parametrize("epochs", [[], [2, 1], [1, 1], [-1, 2]])
def test_epochs_that_do_not_ascend_are_refused(epochs: list[int]) -> None:
    with pytest.raises(InputError, match="Expected epochs in ascending order"):
        train_small(mlp([2, 4, 2]), torch.zeros(2, 2), torch.zeros(2, dtype=torch.long), epochs=epochs, on_epoch=print)


@pytest.mark.parametrize(
    "model",
    [nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)),
     nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))],
)  # fmt: skip
def test_other_networks_are_refused(model: nn.Sequential) -> None:
    with pytest.raises(InputError, match=r"Use train\(\)"):
        train_small(model, torch.zeros(2, 2), torch.zeros(2, dtype=torch.long), epochs=[1], on_epoch=print)
