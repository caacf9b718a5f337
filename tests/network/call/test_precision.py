"""Measuring is done in full float32, whatever the user's setting, which is back afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope.network import full_precision

backends: Any = torch.backends
matmul, cudnn, mkldnn = backends.cuda.matmul, backends.cudnn, backends.mkldnn
NEW = hasattr(matmul, "fp32_precision")  # torch has one setting for each kind of operation
FULL = "ieee" if NEW else False

USERS: dict[str, Callable[[], object]] = {
    "default": lambda: None,
    "old flags": lambda: (setattr(matmul, "allow_tf32", True), setattr(cudnn, "allow_tf32", True)),
    "high": lambda: torch.set_float32_matmul_precision("high"),
    "medium": lambda: torch.set_float32_matmul_precision("medium"),
}
if NEW:
    USERS["new matmul"] = lambda: setattr(matmul, "fp32_precision", "tf32")
    USERS["new global"] = lambda: setattr(backends, "fp32_precision", "tf32")
    USERS["new CPU"] = lambda: setattr(mkldnn.matmul, "fp32_precision", "bf16")


def flags() -> tuple[object, ...]:
    """What decides about products on a GPU."""
    if NEW:
        return matmul.fp32_precision, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision
    return matmul.allow_tf32, cudnn.allow_tf32


def everything() -> tuple[object, ...]:
    """All settings; some cannot be asked for, by torch's own rules."""

    def ask(question: Callable[[], object]) -> object:
        try:
            return question()
        except RuntimeError:
            return "not to be told"

    found = [*flags(), ask(torch.get_float32_matmul_precision), ask(lambda: matmul.allow_tf32)]
    return (*found, backends.fp32_precision, mkldnn.matmul.fp32_precision) if NEW else tuple(found)


@pytest.fixture(params=list(USERS))
def user(request: pytest.FixtureRequest) -> Iterator[str]:
    """A user's setting, for one test."""
    places = [backends, matmul, cudnn.conv, cudnn.rnn, mkldnn.matmul] if NEW else [matmul, cudnn]
    name = "fp32_precision" if NEW else "allow_tf32"
    before = [getattr(place, name) for place in places]
    USERS[request.param]()
    yield request.param
    torch.set_float32_matmul_precision("highest")
    for place, value in zip(places, before, strict=True):
        setattr(place, name, value)


def test_the_setting_is_back_afterwards_even_after_an_error(user: str) -> None:
    before, seen = everything(), []

    @full_precision()
    def fail() -> None:
        seen.append(flags())
        raise KeyError(user)

    with pytest.raises(KeyError, match=user):
        fail()
    assert set(seen[0]) == {FULL}
    assert everything() == before


@pytest.mark.skipif(not NEW, reason="torch has no setting for all operations")
@pytest.mark.parametrize("user", ["default"], indirect=True)
@pytest.mark.usefixtures("user")
def test_what_followed_the_setting_for_all_still_does() -> None:
    backends.fp32_precision = "tf32"
    with full_precision():
        assert matmul.fp32_precision == "ieee"
    assert matmul.fp32_precision == "tf32"
    backends.fp32_precision = "ieee"
    assert matmul.fp32_precision == "ieee"


def witness() -> tuple[nn.Module, list[object]]:
    """A classifier, and a list of the settings under which it runs."""
    model, seen = nn.Sequential(nn.Linear(3, 2), nn.ReLU()), list[object]()
    model.register_forward_hook(lambda *_: seen.extend(flags()))
    return model, seen


INSTRUMENTS: list[Callable[[nn.Module], object]] = [
    lambda model: rs.region_count(model, torch.rand(6, 3), slices=2, grid=5, method="grid"),
    lambda model: rs.region_count(model, torch.rand(6, 3), slices=2, grid=5, method="refined"),
    lambda model: rs.local_complexity(model, torch.rand(4, 3), dims=2),
]


@pytest.mark.usefixtures("user")
def test_instruments_measure_in_full_precision() -> None:
    before = everything()
    for measure in INSTRUMENTS:
        model, seen = witness()
        measure(model)
        assert set(seen) == {FULL}
        assert everything() == before
