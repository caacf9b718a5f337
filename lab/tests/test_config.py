"""An experiment is a value: it survives a file, its key names it for ever, and a wrong setting is named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from regionscope.errors import InputError
from regionscope_lab.config import DataSpec, Experiment, MeasureSpec, NetworkSpec, Training
from regionscope_lab.experiment import check


def experiment(**changes: Any) -> Experiment:
    base = Experiment(
        data=DataSpec(name="digits", n_train=500),
        network=NetworkSpec(name="mlp", options={"depth": 2, "width": 32}),
        training=Training(epochs=3, lr=0.01),
        measures=(MeasureSpec(instrument="region_count", name="regions", options={"dim": 1}),),
    )
    return replace(base, **changes)


def test_it_comes_back_from_json_and_what_is_left_out_has_its_default() -> None:
    assert Experiment.from_dict(json.loads(json.dumps(experiment().to_dict()))) == experiment()
    document = {"data": {"name": "moons"}, "network": {"name": "mlp"}, "measures": [{"instrument": "margin"}]}
    read = Experiment.from_dict(document)
    assert read.training == Training()
    assert read.measures[0].name == "margin"


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


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("training", "lr"), 0, "Expected a positive training.lr"),
        (("training", "lr"), "0.1", "Expected training.lr to be a number, got '0.1'"),
        (("training", "epochs"), 2.5, "training.epochs to be a whole number"),
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
        (("data",), None, "got no 'data'"),
        (("network",), {}, "a value for 'name' in network, which has no default, got none"),
        (("seed",), 2**70, "seed to be a whole number from 0 to .* got 1180591620717411303424"),
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
    if value is None:
        del inner[path[-1]]
    with pytest.raises(InputError, match=sentence):
        Experiment.from_dict(document)


STORED: dict[str, dict[str, Any]] = {
    "4736245aa170b666": {"data": {"name": "digits"}, "network": {"name": "mlp"}},
    "72157cd3e80d7d0c": {
        "data": {"name": "two_moons", "n_train": 200, "seed": 3, "options": {"noise": 0.2}},
        "network": {"name": "mlp", "options": {"width": 32, "depth": 3}},
        "training": {"epochs": 20, "optimizer": "adam", "lr": 0.001, "schedule": "constant"},
        "seed": 2,
    },
    "f9d1d7a875a0c587": {
        "data": {"name": "cifar10"},
        "network": {"name": "resnet18"},
        "training": {"weight_decay": 0.0005, "batch_size": 256, "augment": "crop_flip", "precision": "bf16"},
        "measures": [{"instrument": "region_count", "options": {"slices": 100, "dim": 1}}],
        "seed": 1,
    },
    "b1a003f8d944b5e7": {
        "data": {"name": "mnist", "n_train": 1000, "n_test": 500, "options": {"flatten": True}},
        "network": {"name": "mlp", "options": {"width": 200, "depth": 3}},
        "training": {"optimizer": "adagrad", "lr": 0.01, "checkpoints": "log 1 10000 50", "evaluate_every": 5},
    },
    "d0eddbb33b469316": {
        "data": {"name": "digits"},
        "network": {"name": "mlp", "options": {"width": 16}},
        "measures": [
            {"instrument": "linear_regions", "when": "every 5 epochs", "options": {"where": "plane", "margin": 0.5}},
            {
                "instrument": "linear_region_count",
                "name": "lines",
                "when": "start and end",
                "options": {"dim": 1, "slices": 50, "alpha": [-1.0, 2.0], "points": ["train", "test"]},
            },
            {"instrument": "sharpness", "options": {"samples": 20}},
        ],
    },
    "9893313fbfc15281": {
        "data": {"name": "mnist"},
        "network": {"name": "mlp", "options": {"width": 100}},
        "measures": [
            {
                "instrument": "local_complexity",
                "name": "lc",
                "when": "log 1 10000 50",
                "options": {"points": ["train", "test", "random"], "n": 200, "radius": 0.001, "by_layer": True},
            },
            {"instrument": "complexity_gap", "options": {"n": 100}},
        ],
    },
    "697e9bafd6d9d60a": {
        "data": {"name": "fashion_mnist"},
        "network": {"name": "mobilenetv2"},
        "training": {"lr": 0.02, "momentum": 0.0},
        "measures": [
            {"instrument": "parameter_norms", "options": {"which": "weights"}},
            {"instrument": "output_margin", "name": "margin"},
            {"instrument": "decision_regions", "options": {"box": [-1.0, 1.0], "max_regions": 5000}},
        ],
        "seed": 7,
    },
}


@pytest.mark.parametrize("key", STORED)
def test_a_stored_run_keeps_its_id(key: str) -> None:
    """Also with every setting written out, as in the config.json of its folder."""
    experiment = Experiment.from_dict(STORED[key])
    check(experiment)  # the names of data, network, measures and options still exist
    assert experiment.key == key
    assert Experiment.from_dict(experiment.to_dict()).key == key


def test_a_setting_at_its_default_is_not_part_of_the_id() -> None:
    """So a setting that is added later, with the old behaviour as its default, changes no id."""
    plain = Experiment.from_dict(next(iter(STORED.values())))
    for name, value in plain.to_dict()["training"].items():
        spelled_out = {**STORED[plain.key], "training": {name: value}}
        assert Experiment.from_dict(spelled_out).key == plain.key
