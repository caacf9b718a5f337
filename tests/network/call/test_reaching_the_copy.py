"""Ways in which a forward pass reaches its modules: the private copy is found on each, or the model is refused."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from network.call.snapshots import in_another_thread, snapshot
from regionscope.errors import InputError
from regionscope.network import untouched


class Helper:
    """A plain object that holds a module."""

    def __init__(self, part: nn.Module) -> None:
        self.parts = {"it": part}

    def run(self, x: Tensor) -> Tensor:
        return self.parts["it"](x)


class Reaches(nn.Module):
    def __init__(self, function: Any, part: nn.Module) -> None:
        super().__init__()
        self.function, self.part = function, part

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


GLOBAL = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))


class ReachesGlobal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = GLOBAL

    def forward(self, x: Tensor) -> Tensor:
        return GLOBAL(x)


@pytest.mark.parametrize("way", ["closure", "default", "partial", "method", "helper", "bound helper", "list", "global"])
def test_the_copy_is_reached_on_every_way(way: str) -> None:
    part = GLOBAL

    def apply(x: Tensor, part: nn.Module = part) -> Tensor:
        return part(x)

    helper, listed = Helper(part), [part]
    function = {
        "closure": lambda x: part(x),
        "default": apply,
        "partial": functools.partial(nn.Module.__call__, part),
        "method": part.forward,
        "helper": lambda x: helper.run(x),
        "bound helper": helper.run,
        "list": lambda x: listed[0](x),
        "global": None,
    }[way]
    model = (ReachesGlobal() if way == "global" else Reaches(function, part)).train()
    x, before = torch.randn(6, 4), snapshot(model)
    with untouched(model) as private:
        found = private(x)
    assert snapshot(model) == before
    assert part.training
    part.eval()
    assert torch.equal(found, part(x))
    assert helper.parts["it"] is part


class Sealed:
    """An object that the copy cannot look into."""

    __slots__ = ("part",)

    def __init__(self, part: nn.Module) -> None:
        self.part = part


def test_a_way_that_cannot_be_followed_is_refused_before_it_does_harm() -> None:
    part = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    sealed = Sealed(part)
    model, x = Reaches(lambda x: sealed.part(x), part), torch.randn(6, 4)
    before = snapshot(model)
    with pytest.raises(InputError, match=r"a model that reaches .*got one that changes"), untouched(model) as private:
        private(x)
    assert snapshot(model) == before
    model.eval()
    with untouched(model) as private:  # harmless
        assert torch.equal(private(x), model(x))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm, nn.utils.parametrizations.weight_norm])
def test_weights_that_hooks_compute(norm: Any) -> None:
    model, x = norm(nn.Linear(4, 4)), torch.randn(3, 4)
    with untouched(model) as private:
        found = private(x)
    assert torch.equal(found, model.eval()(x))


def test_tied_weights_and_recurrent_layers() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    with untouched(model) as private:
        assert private[0].weight is private[1].weight
        assert private[0].weight is not model[0].weight
    lstm, x = nn.LSTM(4, 3), torch.randn(2, 5, 4)
    with untouched(lstm) as private_lstm:
        in_another_thread(lambda: nn.init.zeros_(lstm.weight_ih_l0))
        assert private_lstm(x)[0].std() > 0
        assert private_lstm._flat_weights[0] is private_lstm.weight_ih_l0


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_a_scripted_model() -> None:
    scripted, x = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))), torch.randn(3, 4)
    with untouched(nn.Sequential(scripted)) as private:
        assert torch.equal(private(x), private(x))
    assert scripted.training
