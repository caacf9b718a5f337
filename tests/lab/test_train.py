from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regionscope.errors import InputError, RegionscopeError
from regionscope.lab.train import Epoch, Training, evaluate, train
from regionscope.lab.zoo import mlp


def halves(n: int = 200) -> tuple[Tensor, Tensor]:
    """Points labelled by the sign of their first entry."""
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] > 0).long()


def test_it_learns_and_tells() -> None:
    x, y = halves()
    model = mlp([2, 16, 2])
    heard: list[Epoch] = []
    history = train(model, x, y, training=Training(epochs=30, lr=1e-2), on_epoch=heard.append)
    assert [epoch.number for epoch in heard] == list(range(1, 31))
    assert history.losses.tolist() == [epoch.loss for epoch in heard]
    assert history.losses[-1] < history.losses[0] / 2
    loss, accuracy = evaluate(model, x, y)
    assert accuracy > 0.95
    assert loss < 0.3


def test_the_same_seed_gives_the_same_weights_even_with_dropout() -> None:
    x, y = halves()

    def weights(seed: int) -> Tensor:
        model = mlp([2, 16, 2])
        noisy = nn.Sequential(model, nn.Dropout(0.1))
        train(noisy, x, y, training=Training(epochs=2, seed=seed))
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_no_trace_is_left() -> None:
    x, y = halves()
    model = mlp([2, 4, 2]).eval()
    state = torch.get_rng_state()
    train(model, x, y, training=Training(epochs=1))
    evaluate(model.train(), x, y)
    assert torch.equal(state, torch.get_rng_state())
    assert model.training
    train(model.eval(), x, y, training=Training(epochs=1))
    assert not model.training


def test_the_last_batch_may_be_short() -> None:
    x, y = halves(33)
    assert len(train(mlp([2, 4, 2]), x, y, training=Training(epochs=1, batch_size=32)).losses) == 1


@pytest.mark.parametrize(
    ("x", "y", "training", "sentence"),
    [
        (torch.zeros(0, 2), torch.zeros(0, dtype=torch.long), Training(), "empty"),
        (torch.zeros(3, 2), torch.zeros(2, dtype=torch.long), Training(), "each of the 3 inputs"),
        (torch.full((3, 2), torch.nan), torch.zeros(3, dtype=torch.long), Training(), "NaN"),
        (torch.zeros(3, 2), torch.zeros(3, dtype=torch.long), Training(epochs=0), "at least 1"),
    ],
)
def test_bad_input_gets_a_sentence(x: Tensor, y: Tensor, training: Training, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        train(mlp([2, 4, 2]), x, y, training=training)


def test_divergence_is_an_error_and_the_mode_comes_back() -> None:
    x, y = halves()
    model = mlp([2, 4, 2]).eval()
    with pytest.raises(RegionscopeError, match="diverged in epoch"):
        train(model, x * 1e30, y, training=Training(lr=1e30, epochs=50))
    assert not model.training


def test_mlp_is_seeded_and_named() -> None:
    assert torch.equal(mlp([2, 3, 1], seed=5)[0].weight, mlp([2, 3, 1], seed=5)[0].weight)
    assert [name for name, _ in mlp([2, 3, 3, 1]).named_children()] == [
        "linear1", "relu1", "linear2", "relu2", "linear3",
    ]  # fmt: skip
    with pytest.raises(InputError, match="widths"):
        mlp([2])
