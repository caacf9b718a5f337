"""Checks of the data, the model and the state of a training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.formatting import described
from regionscope.monitor.monitor import no_trace, same_randomness
from regionscope_lab.data import Dataset, DataSplit
from regionscope_lab.train.state import TrainState


def parts(data: DataSplit | Dataset) -> tuple[Dataset, Dataset | None]:
    """The training part, and the test part if there is one."""
    if isinstance(data, Dataset):
        return data, None
    if isinstance(data, DataSplit):
        return data.train, data.test
    raise InputError(
        "Expected a Dataset(name, inputs, labels, n_classes) or a DataSplit(train=Dataset(...), "
        f"test=Dataset(...)), got {type(data).__name__}. "
        "Wrap your tensors in one of these."
    )


def check_data(train: Dataset, test: Dataset | None) -> None:
    """Raise ``InputError`` unless the inputs of both parts are finite."""
    for data in (train, test):
        if data is not None and not bool(torch.isfinite(data.inputs).all()):
            raise InputError(
                f"Expected finite inputs in {data.name!r}, got NaN or infinite values. Remove or repair these inputs."
            )


def check_outputs(model: nn.Module, example: Tensor, classes: int) -> int:
    """The model takes such an input and has an output for each class (or more); how many it has."""
    with same_randomness(), no_trace(model) as private:
        try:
            outputs = private(example.clone())  # it may write into its inputs
        except RuntimeError as error:
            raise InputError(
                f"Expected a model that takes inputs of shape {tuple(example.shape[1:])} in {example.dtype}, got one "
                f"that fails on them: {described(error)} Change the network or the data."
            ) from error
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.shape[1] < classes:
        got = f"shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else f"a {type(outputs).__name__}"
        advice = (
            f"Give the last layer {classes} outputs."
            if isinstance(outputs, Tensor)
            else 'Select the logits: network = {name = ..., output = "logits"} in a file, '
            'rs.select_output(model, "logits") in Python.'
        )
        raise InputError(
            f"Expected outputs of shape (1, {classes}) for one input, one for each class, got {got}. {advice}"
        )
    return outputs.shape[1]


def check_state(state: TrainState, wanted: Mapping[str, Any], model: nn.Module) -> None:
    """Raise ``InputError`` unless the state belongs to this training and this model."""
    for name, value in wanted.items():
        got = state.meta.get(name)
        if got == value:
            continue
        if isinstance(value, Mapping) and isinstance(got, Mapping):
            name, value, got = next((k, v, got.get(k)) for k, v in value.items() if got.get(k) != v)
        raise InputError(
            f"Expected the state of this training, with {name} {value}, got one with {got}. Start without it."
        )
    weights, expected = state.part("model"), model.state_dict()
    if {k: v.shape for k, v in weights.items()} != {k: v.shape for k, v in expected.items()}:
        raise InputError(
            "Expected the state of this network, got one whose weights have other names or shapes. "
            "Build the network with the options of the stored run."
        )
