"""Fitted scikit-learn estimators, on the package's own data: the network predicts what the estimator predicts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, SGDRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

import regionscope as rs
from regionscope import complexity, measures, plot

X, y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[y]
MLP = MLPClassifier((8, 6), max_iter=40, random_state=0)


def fitted(*steps: Any, labels: Any = NAMES) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an optimiser has not converged
        return make_pipeline(*steps).fit(X[: len(labels)], labels)


ESTIMATORS = {
    "network": lambda: fitted(StandardScaler(), MLP),
    "network of two classes": lambda: fitted(MLP, labels=NAMES[:100]),
    "alone": lambda: fitted(MLP).steps[-1][1],
    "logistic regression": lambda: fitted(MinMaxScaler(), PCA(2), LogisticRegression()),
    "whitened": lambda: fitted(RobustScaler(), PCA(3, whiten=True), SelectKBest(k=2), "passthrough", LinearSVC()),
    "two classes": lambda: fitted(MaxAbsScaler(), TruncatedSVD(3), SVC(kernel="linear"), labels=NAMES[:100]),
    "search": lambda: GridSearchCV(fitted(StandardScaler(), MLP), {"mlpclassifier__alpha": [1e-4]}, cv=2).fit(X, NAMES),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore:.*(converge|Iterations)")
def test_labels_are_the_classes_that_the_estimator_predicts(name: str) -> None:
    estimator = ESTIMATORS[name]()
    assert rs.trace(estimator).classes == tuple(estimator.classes_)
    plane = rs.Box.through(X[[0, 70, 40]], margin=1.0)
    dec = rs.decision_regions(estimator, plane)
    dec.partition.check()
    wide = (dec.partition.sizes > 1e-9 * plane.size).cpu()
    predicted = estimator.predict(plane.embed(dec.partition.interior[wide]).numpy())
    assert predicted.tolist() == [dec.classes[label] for label in dec.piece_labels[wide].tolist()]
    assert set(dec.to_pandas()["label"]) <= set(estimator.classes_)


@pytest.mark.filterwarnings("ignore:.*converge")
def test_regressors_and_clipped_scales_are_their_predictions() -> None:
    for last in (MLPRegressor(hidden_layer_sizes=(9,), max_iter=30, random_state=0), Ridge(), SGDRegressor()):
        estimator = fitted(MinMaxScaler(clip=True), last, labels=y.astype(float))
        inputs = np.concatenate([X, 3 * X - 5])
        values = rs.trace(estimator)(torch.from_numpy(inputs))
        np.testing.assert_allclose(values[:, 0], estimator.predict(inputs), rtol=1e-9, atol=1e-9)
        rs.linear_regions(estimator, rs.Segment(2 * X[0], -X[60])).check()


@pytest.mark.filterwarnings("ignore:.*converge")
def test_every_instrument_takes_an_estimator() -> None:
    digits, labels = load_digits(return_X_y=True)
    estimator = make_pipeline(PCA(8), MLPClassifier((12,), max_iter=40, random_state=0)).fit(digits, labels)
    line = rs.Segment(digits[0], digits[1])
    found = rs.flips(estimator, line)
    first = rs.first_flip(estimator, digits[0], digits[1] - digits[0], max_distance=line.size)
    assert first is not None
    assert first.distance == pytest.approx(float(found.coords[0]) * line.size)
    assert rs.region_count(estimator, slices=[line], method="exact").value == len(found) + 1
    assert rs.regions_at(estimator, digits[:3]).distance.shape == (3,)
    assert bool((rs.integrated_gradients(estimator, digits[:2], target=0).gap < 1e-9).all())
    assert rs.level_set(estimator, rs.Simplex(digits[:3]), classes=0).vertices.shape[1] == 2
    assert rs.local_complexity(estimator, digits[:3], radius=1.0, dims=3).total.shape == (3,)
    assert complexity.deformation(estimator, digits[:3], radius=1.0, dims=3)
    assert measures.parameter_norms(estimator).l2 > 0
    error = measures.error_rate(estimator, digits, labels).value
    assert error == pytest.approx(1 - estimator.score(digits, labels))
    assert (measures.output_margin(estimator, digits, labels).value > 0) == (error < 0.5)


def test_names_of_classes_stand_in_the_legend() -> None:
    dec = rs.decision_regions(fitted(LogisticRegression()), rs.Box.through(X[[0, 70, 140]], margin=0.5))
    (legend,) = plot.decision_figure(dec).axes[0].figure.legends or [plot.decision_figure(dec).axes[0].get_legend()]
    assert [text.get_text() for text in legend.get_texts()] == ["setosa", "versicolor", "virginica"]


@pytest.mark.filterwarnings("ignore:.*converge")
@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: LogisticRegression(), "Expected a fitted estimator, got a LogisticRegression before fit"),
        (lambda: fitted(Normalizer(), LogisticRegression()), "steps that are affine .* got Normalizer in the pipeline"),
        (lambda: RandomForestClassifier(3).fit(X, y), "a linear model or a multi-layer perceptron .* got RandomForest"),
        (lambda: SVC(kernel="linear").fit(X, y), "but SVC predicts something else"),
        (lambda: SVC().fit(X, y), "multi-layer perceptron of scikit-learn, got SVC"),
        (lambda: PoissonRegressor().fit(X, y), "multi-layer perceptron of scikit-learn, got PoissonRegressor"),
        (lambda: MLPClassifier((3,), activation="tanh", max_iter=5).fit(X, y), "Tanh"),
        (lambda: MLPClassifier((3,), max_iter=5).fit(X, np.eye(3)[y][:, [0, 0, 1]]), "predicts something else"),
    ],
)
def test_an_estimator_of_another_kind_is_refused_with_the_reason(make: Any, match: str) -> None:
    with pytest.raises(rs.RegionscopeError, match=match):
        rs.trace(make())


def test_a_forest_is_still_counted_by_its_predictions() -> None:
    forest = RandomForestClassifier(3, random_state=0).fit(X, y)
    assert rs.region_count(forest, X, slices=3).value >= 1
