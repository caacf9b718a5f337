"""An experiment is a value: it survives a file, its key names it, and a wrong setting is named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from regionscope.errors import InputError
from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training


def experiment(**changes: Any) -> Experiment:
    base = Experiment(
        data=DataSpec(name="digits", n_train=500),
        network=NetworkSpec(name="mlp", options={"depth": 2, "width": 32}),
        training=Training(epochs=3, lr=0.01),
        measures=(MeasureSpec(instrument="region_count", name="regions", options={"dim": 1}),),
    )
    return replace(base, **changes)


def test_it_comes_back_from_json() -> None:
    assert Experiment.from_dict(json.loads(json.dumps(experiment().to_dict()))) == experiment()


def test_what_is_left_out_has_its_default() -> None:
    read = Experiment.from_dict({"data": {"name": "moons"}, "network": {"name": "mlp"}})
    assert read.training == Training()
    assert read.measures == ()


@pytest.mark.parametrize(
    "changed",
    [
        experiment(seed=1),
        experiment(data=DataSpec(name="digits", n_train=501)),
        experiment(training=Training(epochs=3, lr=0.02)),
        experiment(network=NetworkSpec(name="mlp", options={"depth": 2, "width": 33})),
        experiment(measures=()),
    ],
)
def test_every_setting_is_in_the_key(changed: Experiment) -> None:
    assert changed.key != experiment().key


def test_equal_settings_have_equal_keys_however_they_are_written() -> None:
    one = experiment(training=Training(lr=1), network=NetworkSpec(name="mlp", options={"hidden": (3, 4), "a": 1}))
    same = experiment(training=Training(lr=1.0), network=NetworkSpec(name="mlp", options={"a": 1, "hidden": [3, 4]}))
    assert one.key == same.key
    assert len(one.key) == 16


def test_a_key_is_for_ever() -> None:
    """Runs are found by it: a new setting with a default, and nothing else, may be added without changing it."""
    assert experiment().key == "2cd786a4ca0b83a2"
    network = NetworkSpec(name="cnn", options={"depth": 5, "width": 8, "bn": False})
    assert Experiment(data=DataSpec(name="cifar10"), network=network).key == "d16b7e20fa0bc396"


def test_a_measure_is_called_after_its_instrument() -> None:
    assert MeasureSpec(instrument="margin").name == "margin"


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("training", "lr"), 0, "Expected a positive training.lr"),
        (("training", "lr"), "0.1", "Expected training.lr to be a number, got '0.1'"),
        (("training", "lr"), True, "training.lr to be a number"),
        (("training", "epochs"), 2.5, "training.epochs to be a whole number"),
        (("training", "epochs"), 0, "training.epochs of at least 1"),
        (("training", "momentum"), 1.0, "momentum below 1"),
        (("training", "optimizer"), "lbfgs", "got 'lbfgs'. Choose from sgd, adam, adamw, adagrad"),
        (("training", "rate"), 0.1, "Expected a setting of training, got 'rate'. Choose from epochs, optimizer"),
        (("data", "label_noise"), 1.5, "from 0 to 1, got 1.5"),
        (("data", "n_train"), 0, "data.n_train of at least 1"),
        (("data",), 3, "Expected data to be a table of settings, got 3"),
        (
            ("network", "options"),
            {"f": object()},
            "Expected only numbers, strings, lists and tables in network.options",
        ),
        (("network",), {}, "a value for 'name' in network, which has no default, got none"),
        (("seed",), -1, "seed to be a whole number from 0 .* got -1"),
        (("seed",), 2**70, "seed to be a whole number from 0 to .* got 1180591620717411303424"),
        (("seed",), "a", "seed to be a whole number"),
        (("training", "epochs"), -(10**400), "training.epochs of at least 1"),
        (("measures",), "gap", "measures to be a list"),
        (
            ("measures",),
            [{"instrument": "gap"}, {"instrument": "gap"}],
            "a different name for each measure, got 'gap' twice",
        ),
        (("measures",), [{}], r"a value for 'instrument' in measures\[0\], which has no default, got none"),
        (("colour",), 1, "Expected a setting of an experiment, got 'colour'"),
        (
            ("grid",),
            {"seed": [0, 1]},
            "got 'grid', which is part of a sweep. Pass the file to `regionscope-lab sweep run`.",
        ),
    ],
)
def test_a_wrong_setting_is_named(path: tuple[str, ...], value: Any, sentence: str) -> None:
    document = experiment().to_dict()
    inner = document
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    with pytest.raises(InputError, match=sentence):
        Experiment.from_dict(document)


@pytest.mark.parametrize("part", ["data", "network"])
def test_data_and_network_are_needed(part: str) -> None:
    document = experiment().to_dict()
    del document[part]
    with pytest.raises(InputError, match=f"got no '{part}'"):
        Experiment.from_dict(document)
