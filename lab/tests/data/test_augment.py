"""Random crops, flips and mixup of whole batches, beside slow twins that go image by image."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.nn import functional

from regionscope.errors import InputError
from regionscope_lab.data import crop_flip, mixup
from regionscope_lab.data.augment import beta_symmetric


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def slow_crop_flip(batch: Tensor, seed: int, padding: int) -> Tensor:
    """The same draws, used for one image after the other as torchvision's transforms would."""
    numbers = generator(seed)
    down, right = torch.randint(2 * padding + 1, (2, len(batch), 1), generator=numbers)
    mirrored = torch.rand((len(batch), 1), generator=numbers) < 0.5
    made = []
    for i, image in enumerate(batch):
        height, width = image.shape[1:]
        padded = functional.pad(image, (padding,) * 4)
        cut = padded[:, int(down[i]) : int(down[i]) + height, int(right[i]) : int(right[i]) + width]
        made.append(cut.flip(2) if bool(mirrored[i]) else cut)
    return torch.stack(made)


@pytest.mark.parametrize(("shape", "padding"), [((1, 1, 1, 1), 0), ((64, 3, 8, 8), 4), ((7, 2, 5, 9), 1)])
def test_crop_flip_is_its_slow_twin(shape: tuple[int, ...], padding: int) -> None:
    batch = torch.randn(shape, generator=generator(5))
    kept = batch.clone()
    made = crop_flip(batch, generator(3), padding=padding)
    assert torch.equal(made, slow_crop_flip(batch, 3, padding))
    assert torch.equal(batch, kept)
    assert made.dtype == batch.dtype


def test_every_place_and_both_sides_come_up() -> None:
    image = torch.arange(1.0, 10).reshape(1, 1, 3, 3)
    made = crop_flip(image.expand(4000, 1, 3, 3), generator(), padding=1)
    variants, counts = made.flatten(1).unique(dim=0, return_counts=True)
    assert len(variants) == 9 * 2
    assert (counts - 4000 / 18).abs().max() < 5 * math.sqrt(4000 / 18)


@pytest.mark.parametrize("alpha", [0.2, 0.5, 1.0, 4.0, 30.0])
def test_beta_has_its_distribution(alpha: float) -> None:
    drawn = beta_symmetric(alpha, 4000, generator(1))
    assert stats.kstest(drawn.numpy(), stats.beta(alpha, alpha).cdf).pvalue > 1e-3


@pytest.mark.parametrize("alpha", [1e-3, 0.05, 1e4])
def test_beta_stays_in_its_range_where_powers_overflow(alpha: float) -> None:
    drawn = beta_symmetric(alpha, 4000, generator(1))
    assert bool(torch.isfinite(drawn).all())
    assert float(drawn.min()) >= 0
    assert float(drawn.max()) <= 1
    assert float(drawn.mean()) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("hot", [False, True])
def test_mixup_mixes_inputs_and_labels_alike(hot: bool) -> None:
    labels = torch.tensor([0, 1, 2, 3, 1, 0])
    rows = functional.one_hot(labels, 4).float()
    batch = rows.reshape(6, 4, 1, 1).clone()  # the image says its own label, so the two must stay together
    inputs, soft = mixup(batch, rows if hot else labels, 1.0, generator(2), classes=None if hot else 4)
    assert torch.equal(inputs.flatten(1), soft)
    torch.testing.assert_close(soft.sum(1), torch.ones(6))
    numbers = generator(2)
    lam = float(beta_symmetric(1.0, 1, numbers))
    order = torch.randperm(6, generator=numbers).tolist()
    for i in range(6):
        torch.testing.assert_close(soft[i], lam * rows[i] + (1 - lam) * rows[order[i]])


def test_without_mixup_inputs_stay_and_the_global_random_state_is_not_used() -> None:
    before = torch.get_rng_state()
    crop_flip(torch.zeros(2, 1, 4, 4), generator())
    batch = torch.arange(6.0).reshape(3, 2)
    inputs, soft = mixup(batch, torch.tensor([1, 0, 1]), 0.0, generator(), classes=2)
    assert torch.equal(inputs, batch)
    assert soft.tolist() == [[0, 1], [1, 0], [0, 1]]
    assert torch.equal(before, torch.get_rng_state())


def test_mistakes_are_one_sentence() -> None:
    points, labels, images = torch.zeros(2, 3), torch.tensor([0, 1]), torch.zeros(2, 3, 4, 4)
    for call, words in (
        (lambda: crop_flip(points, generator()), r"\(b, c, h, w\), got shape \(2, 3\)"),
        (lambda: crop_flip(images, generator(), padding=-1), "at least 0, got -1"),
        (lambda: crop_flip(images.to("meta"), generator()), "generator on meta, got cpu"),
        (lambda: mixup(points, labels, 1.0, generator()), "Expected classes="),
        (lambda: mixup(points, labels[[0, 1, 1]], 1.0, generator(), classes=2), r"for 2 inputs, got shape \(3,\)"),
        (lambda: mixup(points, labels, -0.5, generator(), classes=2), "alpha of mixup of at least 0"),
    ):
        with pytest.raises(InputError, match=words):
            call()
