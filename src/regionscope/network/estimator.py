"""Fitted scikit-learn estimators as modules: linear models, multi-layer perceptrons, and affine steps in front of one.

scikit-learn is not imported: an estimator is known by the class names that it inherits from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regionscope.errors import InputError, NotPiecewiseAffine
from regionscope.tolerance import SINGLE_PRECISION_DISTANCE

_LINEAR = {"LinearClassifierMixin", "LinearModel", "SGDRegressor"}
_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU, "identity": nn.Identity, "tanh": nn.Tanh, "logistic": nn.Sigmoid,
}  # fmt: skip
_STEPS = "StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PCA, TruncatedSVD or a selection of features"
_WAY_OUT = "Use region_count(estimator.predict, inputs), which takes any classifier."


def is_estimator(model: object) -> bool:
    """Whether this is a value of a class of scikit-learn."""
    return type(model).__module__.partition(".")[0] == "sklearn" and hasattr(model, "get_params")


def as_module(model: Any, *, counted: bool = False) -> Any:
    """The network of a fitted estimator; any other value as it is. counted: whether labels have to be 0, 1, 2, ..."""
    if not is_estimator(model):
        return model
    network = EstimatorNetwork.of(model)
    if counted and network.classes not in ((), tuple(range(len(network.classes)))):
        raise InputError(
            f"Expected an estimator of the classes 0, 1, 2, ..., got classes_ {network.classes[:4]}. Fit it to "
            "np.unique(labels, return_inverse=True)[1], and pass these labels."
        )
    return network


class EstimatorNetwork(nn.Sequential):
    """A fitted estimator: its steps under their names, up to the decision function or the prediction of a regressor.

    input_shape: of one input. classes: ``estimator.classes_``, the class of each label; empty for a regressor.
    """

    input_shape: tuple[int, ...]
    classes: tuple[Any, ...]

    @staticmethod
    def of(estimator: Any) -> EstimatorNetwork:
        """Read a fitted estimator, and compare its predictions at a few points with those of the network.

        The outputs of a classifier are its decision function (before softmax or sigmoid); labels count its
        ``classes_``.
        """
        if not hasattr(estimator, "n_features_in_"):
            raise InputError(f"Expected a fitted estimator, got a {_name(estimator)} before fit(). Fit it first.")
        while hasattr(estimator, "best_estimator_"):  # of a search
            estimator = estimator.best_estimator_
        steps = list(estimator.steps) if hasattr(estimator, "steps") else [(_name(estimator).lower(), estimator)]
        network = EstimatorNetwork()
        for name, step in steps[:-1]:
            if step != "passthrough":
                network.add_module(name, _transform(step))
        name, last = steps[-1]
        network.add_module(name, _last(last))
        network.input_shape = (int(estimator.n_features_in_),)
        network.classes = tuple(np.asarray(getattr(last, "classes_", ())).tolist())
        network.double().eval()
        network._check(estimator)
        return network

    def _check(self, estimator: Any) -> None:
        """Raise where predictions differ, for example those of several labels or of pairs of classes."""
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(256, *self.input_shape, generator=generator, dtype=torch.float64)
        x = x * 10 ** (3 * torch.rand(256, 1, generator=generator, dtype=torch.float64) - 1)
        outputs, expected = self(x).detach(), np.asarray(estimator.predict(x.numpy()))
        if self.classes:
            labels = outputs.argmax(1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).long()
            same = expected.ndim == 1 and bool(
                (np.asarray(self.classes, dtype=expected.dtype)[labels] == expected).all()
            )
        else:
            difference = np.abs(outputs.numpy() - expected.reshape(outputs.shape)).max()
            same = bool(difference <= SINGLE_PRECISION_DISTANCE * np.abs(expected).max())
        if not same:
            raise NotPiecewiseAffine(
                f"Expected an estimator that predicts the largest output, or a linear value, but {_name(estimator)} "
                f"predicts something else. {_WAY_OUT}"
            )


class Scale(nn.Module):
    """(x - shift) * factor, clamped to ``limits`` if there are any."""

    def __init__(self, shift: Any, factor: Any, limits: tuple[float, float] | None = None) -> None:
        super().__init__()
        self.shift, self.factor = (nn.Buffer(_tensor(value)) for value in (shift, factor))
        self.limits = limits

    def forward(self, x: Tensor) -> Tensor:
        scaled = (x - self.shift) * self.factor
        return scaled if self.limits is None else scaled.clamp(*self.limits)


class Select(nn.Module):
    """Some of the features."""

    def __init__(self, chosen: Any) -> None:
        super().__init__()
        self.chosen = nn.Buffer(torch.as_tensor(np.flatnonzero(chosen)))

    def forward(self, x: Tensor) -> Tensor:
        return x.index_select(1, self.chosen)


def _transform(step: Any) -> nn.Module:
    """An affine step of a pipeline."""
    name = _name(step)
    if name in _TRANSFORMS:
        return _TRANSFORMS[name](step)
    if hasattr(step, "get_support"):
        return Select(step.get_support())
    raise NotPiecewiseAffine(f"Expected steps that are affine ({_STEPS}), got {name} in the pipeline. {_WAY_OUT}")


def _min_max(step: Any) -> nn.Module:
    return Scale(-step.min_ / step.scale_, step.scale_, step.feature_range if step.clip else None)


def _projection(step: Any) -> nn.Module:
    """PCA and TruncatedSVD, whitened or not."""
    rows = np.asarray(step.components_, dtype=np.float64)
    if getattr(step, "whiten", False):
        rows = rows / np.sqrt(step.explained_variance_)[:, None]
    mean = getattr(step, "mean_", None)
    return _linear(_tensor(rows), np.zeros(len(rows)) if mean is None else -rows @ mean)


_TRANSFORMS: Mapping[str, Callable[[Any], nn.Module]] = {
    "StandardScaler": lambda step: Scale(_or(step.mean_, 0.0), 1 / _or(step.scale_, 1.0)),
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": lambda step: Scale(0.0, 1 / step.scale_),
    "RobustScaler": lambda step: Scale(_or(step.center_, 0.0), 1 / _or(step.scale_, 1.0)),
    "PCA": _projection,
    "IncrementalPCA": _projection,
    "TruncatedSVD": _projection,
}


def _last(estimator: Any) -> nn.Module:
    """The last step: a linear model or a multi-layer perceptron, without its softmax or sigmoid."""
    bases = {kind.__name__ for kind in type(estimator).__mro__}
    if "BaseMultilayerPerceptron" in bases:
        layers: list[nn.Module] = []
        for weight, bias in zip(estimator.coefs_, estimator.intercepts_, strict=True):
            layers += [_linear(_tensor(weight).T, bias), _ACTIVATIONS[estimator.activation]()]
        return nn.Sequential(*layers[:-1])
    if bases & _LINEAR or getattr(estimator, "kernel", "") == "linear":
        weight = _tensor(estimator.coef_)
        weight = weight.reshape(-1, weight.shape[-1])
        return _linear(weight, np.broadcast_to(estimator.intercept_, (len(weight),)))
    raise NotPiecewiseAffine(
        f"Expected a linear model or a multi-layer perceptron of scikit-learn, got {_name(estimator)}. {_WAY_OUT}"
    )


def _linear(weight: Tensor, bias: Any) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="cpu", dtype=torch.float64)
    layer.load_state_dict({"weight": weight, "bias": _tensor(bias)})
    return layer


def _tensor(value: Any) -> Tensor:
    """A copy in float64; the coefficients of sparse models become dense."""
    dense = value.toarray() if hasattr(value, "toarray") else value
    return torch.from_numpy(np.array(dense, dtype=np.float64))


def _or(value: Any, default: float) -> Any:
    return default if value is None else value


def _name(estimator: object) -> str:
    return type(estimator).__name__
