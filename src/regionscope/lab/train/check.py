"""What can be wrong with the input of a training, each in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regionscope.errors import InputError
from regionscope.lab.data import Dataset, DataSplit
from regionscope.lab.monitor.no_trace import no_trace, same_randomness
from regionscope.lab.train.state import TrainState


def parts(data: DataSplit | Dataset) -> tuple[Dataset, Dataset | None]:
    """What is trained on, and what is tested on, if anything."""
    if isinstance(data, Dataset):
        return data, None
    if isinstance(data, DataSplit):
        return data.train, data.test
    raise InputError(
        f"The data is of type {type(data).__name__}; a Dataset(name, inputs, labels, n_classes) or a "
        "DataSplit(train=Dataset(...), test=Dataset(...)) is needed."
    )


def check_data(train: Dataset, test: Dataset | None) -> None:
    """Both parts hold finite inputs."""
    for data in (train, test):
        if data is not None and not bool(torch.isfinite(data.inputs).all()):
            raise InputError(f"The inputs of {data.name!r} hold NaN or infinite values; training needs finite numbers.")


def check_outputs(model: nn.Module, example: Tensor, classes: int) -> int:
    """The model takes such an input and has an output for each class (or more); how many it has."""
    with same_randomness(), no_trace(model) as private:
        try:
            outputs = private(example)
        except RuntimeError as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(
                f"The model does not take inputs of shape {tuple(example.shape[1:])} in {example.dtype}: {reason}"
            ) from error
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.shape[1] < classes:
        came = f"shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else f"a {type(outputs).__name__}"
        raise InputError(f"The model gives {came} for one input; (1, {classes}) is needed, one output for each class.")
    return outputs.shape[1]


def check_state(state: TrainState, wanted: Mapping[str, Any], model: nn.Module) -> None:
    """The state belongs to this training and this model."""
    for name, value in wanted.items():
        came = state.meta.get(name)
        if came == value:
            continue
        if isinstance(value, Mapping) and isinstance(came, Mapping):
            name, value, came = next((k, v, came.get(k)) for k, v in value.items() if came.get(k) != v)
        raise InputError(
            f"The state belongs to another training: its {name} is {came}, and here it is {value}; start without it."
        )
    found, own = state.part("model"), model.state_dict()
    if {k: v.shape for k, v in found.items()} != {k: v.shape for k, v in own.items()}:
        raise InputError("The state belongs to another network: names or shapes of its weights differ.")
