"""The 1,797 handwritten digits of 8 x 8 pixels that scikit-learn carries with it: real images without a download."""

from __future__ import annotations

from dataclasses import replace

import torch

from regionscope.errors import InputError
from regionscope_lab.data.dataset import Dataset, DataSplit, balanced_choice, derived_seed


def digits() -> Dataset:
    """All 1,797 digits: inputs (1797, 1, 8, 8) between 0 and 1, 10 classes."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    images = torch.from_numpy(loaded.images).float().div_(16)[:, None]
    return Dataset("digits", images, torch.from_numpy(loaded.target).long(), 10)


def digits_split(
    n_train: int | None = None, n_test: int | None = None, *, test_share: float = 0.2, seed: int = 0
) -> DataSplit:
    """``test_share`` of the digits, evenly over the classes, to test on and the others to train on.

    ``seed`` decides who is where; ``n_train`` and ``n_test`` then take that many out of each part.
    """
    if not 0 < test_share < 1:
        raise InputError(f"Expected test_share of digits between 0 and 1, got {test_share}. Choose 0.2, for example.")
    everything = digits()
    in_test = torch.zeros(len(everything), dtype=torch.bool, device="cpu")
    in_test[balanced_choice(everything.labels, round(test_share * len(everything)) or 1, seed=seed)] = True
    parts = [
        replace(everything, inputs=everything.inputs[chosen], labels=everything.labels[chosen])
        for chosen in (~in_test, in_test)
    ]
    for i, (n, part) in enumerate(((n_train, "train"), (n_test, "test"))):
        if n is not None:
            parts[i] = parts[i].subset(n, derived_seed(seed, f"{part} subset"))
    return DataSplit(*parts)
