"""``linear_probe``: how well a linear classifier on features predicts labels it has not seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regionscope.checks import read_generator, read_number
from regionscope.errors import InputError
from regionscope.inputs import Labels, read_array
from regionscope.types import Estimate, Reading, repr_of


@dataclass(frozen=True, eq=False)
class LinearProbe:
    """A ridge classifier and its accuracy.

    train, test: accuracy on the two parts, with its standard error. chance: test accuracy of always predicting the most
        frequent class of the training part. weights: (features, classes) and bias: (classes,), for features that are
        not standardised. classes: (classes,) the labels. test_rows: the rows of the test part.
    """

    train: Estimate
    test: Estimate
    chance: float
    weights: Tensor
    bias: Tensor
    classes: Tensor
    test_rows: Tensor

    def __repr__(self) -> str:
        return repr_of(self, classes=len(self.classes))

    def readings(self) -> tuple[Reading, ...]:
        """The accuracy on the test part, on the training part, and of the most frequent class."""
        test, train = self.test, self.train
        return (
            ("", test.value, test.stderr),
            ("train", train.value, train.stderr),
            ("chance", self.chance, None),
        )

    def predict(self, features: Tensor) -> Tensor:
        """Labels (n,) of features (n, f)."""
        rows = features.to(self.weights).flatten(1)
        return self.classes[(rows @ self.weights + self.bias).argmax(1)]


def linear_probe(
    features: Any, labels: Labels, *, ridge: float = 1.0, test_share: float = 0.3, seed: int = 0
) -> LinearProbe:
    """A linear classifier on features, fitted on one part of the rows and scored on the other.

    Ridge regression in closed form on one column of +1 and -1 for each class, after the features are standardised with
    the mean and deviation of the training part; the largest value wins. Balestriero et al. 2023 use logistic
    regression on the same features.

    features: (n, ...) numbers, or a result with a ``table`` (``SplineFeatures``). labels: (n,) whole numbers.
    ridge: weight of the squared norm of the coefficients. test_share: share of the rows that is kept for the score.
    Cost: one linear system of min(n, features) unknowns.
    """
    rows = read_array(getattr(features, "table", features)).detach().double()
    if rows.ndim < 2 or rows[:1].numel() == 0 < len(rows):
        raise InputError(
            f"Expected features (n, ...) with at least one number for each row, got shape {tuple(rows.shape)}. "
            "Pass x[:, None] for a single feature."
        )
    rows = rows.flatten(1)
    wanted = read_array(labels).to(rows.device)
    if wanted.ndim != 1 or len(wanted) != len(rows) or wanted.is_floating_point():
        raise InputError(
            f"Expected {len(rows)} whole numbers as labels, got {tuple(wanted.shape)} of {wanted.dtype}. "
            "Pass class indices of shape (n,)."
        )
    if not bool(rows.isfinite().all()):
        raise InputError("Expected finite features, got NaN or infinite values. Remove the rows with these values.")
    if not read_number("ridge", ridge) > 0 or not 0 < read_number("test_share", test_share) < 1:
        raise InputError(
            f"Expected ridge > 0 and 0 < test_share < 1, got {ridge} and {test_share}. Pass 1.0 and 0.2, for example."
        )
    order = torch.randperm(len(rows), generator=read_generator(None, seed), device="cpu").to(rows.device)
    held = max(1, round(test_share * len(rows)))
    test, train = order[:held], order[held:]
    classes, targets = wanted.unique(return_inverse=True)
    if len(classes) < 2 or len(train) < 2:
        raise InputError(
            f"Expected two classes and two rows to fit, got {len(classes)} and {len(train)}. Pass more rows."
        )
    weights, bias = _ridge(rows[train], targets[train], len(classes), ridge)
    right = (rows @ weights + bias).argmax(1) == targets
    usual = targets[train].bincount().argmax()
    chance = float((targets[test] == usual).double().mean())
    return LinearProbe(
        Estimate.of(right[train]), Estimate.of(right[test]), chance, weights, bias, classes, test.sort().values
    )


def _ridge(rows: Tensor, targets: Tensor, classes: int, ridge: float) -> tuple[Tensor, Tensor]:
    """Weights (f, c) and bias (c,) on the features as they are."""
    size = torch.ldexp(torch.ones_like(rows[0]), rows.abs().amax(0).frexp().exponent - 1)  # so that no square overflows
    mean = (rows / size).mean(0)
    std = (rows / size).std(0)
    std = torch.where(std > math.ulp(1.0) * mean.abs(), std, torch.ones_like(std))  # constant features
    x = (rows / size - mean) / std
    signs = 2.0 * torch.nn.functional.one_hot(targets, classes).double() - 1.0
    level = signs.mean(0)
    eye = torch.eye(min(x.shape), dtype=x.dtype, device=x.device)
    if x.shape[1] <= x.shape[0]:
        solution = torch.linalg.solve(x.T @ x + ridge * eye, x.T @ (signs - level))
    else:
        solution = x.T @ torch.linalg.solve(x @ x.T + ridge * eye, signs - level)
    weights = solution / std[:, None]
    return weights / size[:, None], level - mean @ weights
