"""Commands repeat no default of an instrument, and offer all that can be written on a command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import regionscope as rs
from regionscope.cli.complexity import complexity
from regionscope.cli.count import count
from regionscope.cli.regions import decisions, regions

PYTHON_ONLY = {"model", "inputs", "x", "slice", "generator", "autocast", "tolerance", "on_limit"}
PYTHON_ONLY |= {"max_slices", "max_points", "batch_size", "frames", "max_pool"}  # few change them
PYTHON_ONLY |= {"args", "position", "attention_mask", "attention", "norms"}  # the last four: token ids, not in files
CHOSEN_LATER = {"memory", "through", "seed"}  # from the device, from --length, and from --run


@pytest.mark.parametrize(
    ("command", "instrument"),
    [(count, rs.region_count), (complexity, rs.local_complexity), (regions, rs.linear_regions),
     (decisions, rs.decision_regions)],
)  # fmt: skip
def test_a_command_has_the_options_of_its_instrument(
    command: Callable[..., Any], instrument: Callable[..., Any]
) -> None:
    offered = inspect.signature(command).parameters
    for name, parameter in inspect.signature(instrument).parameters.items():
        of_lists = name == "dask" and command is not count  # the other commands take one slice
        if name not in PYTHON_ONLY and not of_lists:
            option = {"output": "head"}.get(name, name)
            assert option in offered, f"{command.__name__} lacks {name}"
            assert offered[option].default == parameter.default or name in CHOSEN_LATER
