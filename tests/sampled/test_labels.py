"""Any classifier becomes labels, and is left as it was."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regionscope.errors import InputError
from regionscope.network.call.forward import row_bytes
from regionscope.sampled.labels import INVALID, labels_from, open_labeller

X = torch.randn(11, 4, generator=torch.Generator().manual_seed(0))


def label(model: Any, inputs: Any = X, **options: Any) -> torch.Tensor:
    rows = torch.as_tensor(inputs)
    with open_labeller(model, inputs, tuple(rows.shape[1:]), **options) as labeller:
        return labeller(rows.to(labeller.device, labeller.dtype))


def linear(n_out: int = 3) -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Linear(4, n_out)


class Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = linear(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[:, 0]


def test_logits_single_logits_and_labels() -> None:
    net = linear()
    wanted = net(X).argmax(1)
    assert torch.equal(label(net), wanted)
    assert torch.equal(label(lambda x: net(x)), wanted)
    assert torch.equal(label(lambda x: net(x).argmax(1)), wanted)
    assert torch.equal(label(lambda x: net(torch.from_numpy(x)).numpy(), X.numpy()), wanted)
    sign = (linear(1)(X)[:, 0] > 0).long()
    assert torch.equal(label(linear(1)), sign)
    assert torch.equal(label(Flat()), sign)
    assert torch.equal(label(lambda x: linear(1)(x)), sign)
    assert torch.equal(label(lambda x: x[:, 0] > 0), (X[:, 0] > 0).long())


def test_random_classifiers_leave_the_global_random_state() -> None:
    random, ended = torch.get_rng_state(), threading.Event()
    beside = threading.Thread(target=ended.wait)
    for _ in range(2):  # alone, and beside another thread
        label(lambda x: (x[:, 0] > torch.rand(len(x))).long())
        assert torch.equal(torch.get_rng_state(), random)
        beside.is_alive() or beside.start()
    ended.set()


def test_nan_is_not_a_label_and_ties_go_to_the_lowest_index() -> None:
    assert labels_from(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), 2, who="it").tolist() == [0, 1]
    assert labels_from(torch.tensor([[0.0], [1e-9]]), 2, who="it").tolist() == [0, 1]
    found = labels_from(torch.tensor([[math.nan, 1.0], [0.0, 1.0], [1.0, math.nan]]), 3, who="it")
    assert found.tolist() == [INVALID, 1, INVALID]
    assert labels_from(torch.tensor([[math.nan]]), 1, who="it").tolist() == [INVALID]


@pytest.mark.slow
def test_estimators_get_flat_rows_and_may_name_their_classes() -> None:
    neighbors = pytest.importorskip("sklearn.neighbors")
    images = X.double().reshape(11, 2, 2).numpy()
    numbers = np.arange(11) % 3
    model = neighbors.KNeighborsClassifier(1).fit(images.reshape(11, 4), numbers)
    assert label(model, images).tolist() == numbers.tolist()
    named = neighbors.KNeighborsClassifier(1).fit(images.reshape(11, 4), np.array(["a", "b", "c"])[numbers])
    assert label(named, images).tolist() == numbers.tolist()
    regression = neighbors.KNeighborsRegressor(1).fit(images.reshape(11, 4), numbers * 0.5)
    with pytest.raises(InputError, match=r"KNeighborsRegressor\.predict to return integer .*got float64 of shape"):
        label(regression, images)


@pytest.mark.parametrize("rows", [1, 2, 10, 11, None])
def test_batches_do_not_change_the_answer(rows: int | None) -> None:
    assert torch.equal(label(linear(), batch_size=rows), linear()(X).argmax(1))


def test_a_model_in_float64_gets_inputs_in_float64() -> None:
    net = linear().double()
    assert torch.equal(label(net), net(X.double()).argmax(1))


def test_batch_size_follows_the_memory_bound() -> None:
    net = nn.Sequential(nn.Conv2d(1, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 256, 2))
    widest = 2 * 64 * 256 * 4  # the ReLU reads and writes this
    one = row_bytes(net, (1, 16, 16), torch.float32, torch.device("cpu"))
    assert widest <= one <= 4 * widest
    with open_labeller(net, None, (1, 16, 16), memory=8 << 20) as labeller:
        assert labeller.rows == (8 << 20) // one
    wide = nn.Linear(4, 2)
    assert row_bytes(wide, (4,), torch.float32, torch.device("cpu")) < 200


def test_a_batch_that_does_not_fit_is_halved() -> None:
    sizes = []

    def hungry(x: torch.Tensor) -> torch.Tensor:
        sizes.append(len(x))
        if len(x) > 3:
            raise torch.OutOfMemoryError("no")
        return x[:, 0] > 0

    assert torch.equal(label(hungry), (X[:, 0] > 0).long())
    assert max(sizes[-4:]) <= 3

    def insatiable(x: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("no")

    with pytest.raises(torch.OutOfMemoryError):
        label(insatiable)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda x: x[:3], r"shape \(3, 4\)"),
        (lambda x: x[:, :0], r"\(11, 0\)"),
        (lambda x: x[:, 0], r"the function to return integer .*got float32 of shape \(11,\)"),
        (lambda x: x.long(), r"the function to return one integer label for each input, got shape \(11, 4\)"),
        (lambda x: x + 1j, "complex"),
        (lambda x: {"logits": x}, "the function to return logits or integer labels, got a dict of 1 value"),
        (lambda x: (x, x[:3]), "the function to return logits or integer labels, got a tuple of 2 values"),
        (lambda x: ["cat"] * len(x), "the function to return logits or integer labels, got an array of <U3"),
        (lambda x: Path(), "the function to return logits or integer labels, got a value of type PosixPath"),
        (nn.Identity, r"got the class Identity\. Create an instance first: Identity\(\.\.\.\)"),
        (lambda x: x @ torch.ones(5, 2), "RuntimeError"),
        (nn.Linear(5, 2), r"failed on inputs of shape \(2, 4\)"),
        (nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2, track_running_stats=False)), "running statistics"),
        (3, "int"),
    ],
)
def test_a_model_that_is_no_classifier_is_one_sentence(model: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        label(model)
    assert "\n" not in str(caught.value)
