"""The ids of stored runs stay as they are, whatever is renamed in the code: a changed id loses the runs on disk."""

from __future__ import annotations

from typing import Any

import pytest

from regionscope_lab.config import Experiment
from regionscope_lab.experiment import check

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
    "fbfce5ce42e9b646": {
        "data": {"name": "cifar100", "label_noise": 0.2},
        "network": {"name": "vgg19"},
        "training": {"epochs": 60, "lr": 0.05, "batch_size": 512, "mixup": 1.0},
    },
    "97a25affc5077c0f": {
        "data": {"name": "gaussian_quantiles", "normalise": False},
        "network": {"name": "mlp", "options": {"width": 8}},
        "training": {
            "optimizer": "adamw",
            "weight_decay": 0.01,
            "batch_size": 16,
            "loss": "mse",
            "precision": "float64",
        },
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
    "acb45a32c15cdb7b": {
        "data": {"name": "random_labels"},
        "network": {"name": "mlp"},
        "training": {"epochs": 5, "lr": 1.0, "momentum": 0.0},
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
