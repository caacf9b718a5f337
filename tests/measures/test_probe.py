"""The linear probe against a least-squares solution written out, and on labels whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regionscope as rs
from regionscope.errors import InputError


@pytest.fixture
def draw() -> torch.Generator:
    """A new generator for each test, so that no test depends on those before it."""
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize(("n", "f"), [(40, 5), (12, 30)])
def test_the_fit_is_the_ridge_solution(n: int, f: int, draw: torch.Generator) -> None:
    x, y = torch.randn(n, f, generator=draw).double(), torch.arange(n) % 3
    found = rs.linear_probe(x, y, ridge=2.0, test_share=0.25)
    held = set(found.test_rows.tolist())
    train = [i for i in range(n) if i not in held]
    rows, signs = x.numpy()[train], np.where(np.eye(3)[y.numpy()[train]] > 0, 1.0, -1.0)
    z = (rows - rows.mean(0)) / rows.std(0, ddof=1)
    tall = np.vstack([z, np.sqrt(2.0) * np.eye(f)])
    beta = np.linalg.lstsq(tall, np.vstack([signs - signs.mean(0), np.zeros((f, 3))]), rcond=None)[0]
    scores = (x.numpy() - rows.mean(0)) / rows.std(0, ddof=1) @ beta + signs.mean(0)
    assert np.allclose((x @ found.weights + found.bias).numpy(), scores)
    right = scores.argmax(1) == y.numpy()
    assert found.test.value == pytest.approx(right[sorted(held)].mean())
    assert found.test.n == len(held)
    assert found.predict(x).tolist() == scores.argmax(1).tolist()


def test_separable_labels_are_found_and_random_ones_are_not(draw: torch.Generator) -> None:
    x = torch.randn(300, 4, generator=draw)
    x[:, 3] = 7.0  # a constant feature
    assert rs.linear_probe(x, (x[:, 0] > 0).long() * 5, ridge=1e-3).test.value > 0.95
    random = rs.linear_probe(x, torch.randint(0, 2, (300,), generator=draw))
    assert abs(random.test.value - 0.5) < 4 * random.test.stderr
    assert {name for name, _, _ in random.readings()} == {"", "train", "chance"}


@pytest.mark.parametrize("power", [-700, 700])
def test_the_unit_of_the_features_changes_no_prediction(power: int, draw: torch.Generator) -> None:
    x, y = torch.randn(40, 3, generator=draw).double(), torch.randint(0, 2, (40,), generator=draw)
    near, far = rs.linear_probe(x, y), rs.linear_probe(x * 2.0**power, y)
    assert torch.equal(far.weights * 2.0**power, near.weights)
    assert (far.train, far.test) == (near.train, near.test)


@pytest.mark.parametrize(
    ("x", "y", "options"),
    [
        (torch.zeros(4, 2), torch.zeros(3, dtype=torch.int64), {}),
        (torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64), {}),
        (torch.full((4, 2), torch.nan), torch.arange(4), {}),
        (torch.zeros(4), torch.arange(4), {}),
        (torch.zeros(4, 0), torch.arange(4), {}),
        (torch.tensor(0.0), torch.arange(4), {}),
        (torch.zeros(4, 2), torch.arange(4), {"ridge": 0.0}),
        (torch.zeros(4, 2), torch.arange(4), {"test_share": 1.0}),
    ],
)
def test_bad_input_is_refused(x: torch.Tensor, y: torch.Tensor, options: dict[str, float]) -> None:
    with pytest.raises(InputError, match="Expected"):
        rs.linear_probe(x, y, **options)
