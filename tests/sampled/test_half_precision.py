"""Labels from a quick pass: always those of the exact one, which sees few rows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import regionscope as rs
from devices import needs_cuda
from regionscope.errors import InputError
from regionscope.sampled.labels import HalfPrecisionScreen, open_labeller

torch.manual_seed(0)  # when this file is read, so that no other test comes between
NET = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 5))


class Noisy:
    """``exact`` counts its rows; ``quick`` is off by up to ``noise``."""

    def __init__(self, net: nn.Module, noise: float) -> None:
        self.net, self.noise, self.rows = net, noise, 0
        self.generator = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def exact(self, inputs: Tensor) -> Tensor:
        self.rows += len(inputs)
        return self.net(inputs)

    @torch.no_grad()
    def quick(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.net(inputs)
        return found + self.noise * (2 * torch.rand(found.shape, generator=self.generator) - 1)


def batches(n: int = 20, rows: int = 1000) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(rows, 2, generator=generator) for _ in range(n)]


@pytest.mark.parametrize("outputs", [1, 5])
def test_labels_are_those_of_the_exact_pass(outputs: int) -> None:
    torch.manual_seed(outputs)
    last = nn.Linear(5, outputs)
    net = nn.Sequential(NET, last)
    with torch.no_grad():
        last.bias -= net(batches(1)[0]).median(0).values  # so that all labels occur
    noisy = Noisy(net, 1e-3)
    screen = HalfPrecisionScreen(noisy.quick, noisy.exact)
    turned = 0
    for inputs in batches():
        found, wanted, rough = screen(inputs), net(inputs), noisy.quick(inputs)
        label = (lambda x: x.argmax(1)) if outputs > 1 else (lambda x: x[:, 0] > 0)
        assert torch.equal(label(found), label(wanted))
        turned += int((label(rough) != label(wanted)).sum())
    assert turned > 0  # the quick pass alone is not enough
    assert noisy.rows < 0.2 * 20_000  # and the exact one is seldom needed


def test_errors_that_grow_are_noticed() -> None:
    noisy = Noisy(NET, 1e-5)
    screen = HalfPrecisionScreen(noisy.quick, noisy.exact)
    for i, inputs in enumerate(batches()):
        noisy.noise = 1e-5 * 2**i
        assert torch.equal(screen(inputs).argmax(1), NET(inputs).argmax(1))


def test_models_that_write_into_their_inputs_get_them_as_they_were() -> None:
    noisy = Noisy(NET, 1e-3)
    screen = HalfPrecisionScreen(lambda x: noisy.quick(x.mul_(2.0)), lambda x: noisy.exact(x.mul_(2.0)))
    for inputs in batches(4):
        assert torch.equal(screen(inputs.clone()).argmax(1), NET(2.0 * inputs).argmax(1))
    assert noisy.rows < 2000  # the quick pass is used


def test_nan_and_integer_labels_come_from_the_exact_pass() -> None:
    screen = HalfPrecisionScreen(lambda x: x * torch.nan, lambda x: x)
    for inputs in batches(3, 40):
        assert torch.equal(screen(inputs), inputs)
    labels = HalfPrecisionScreen(lambda x: x, lambda x: x[:, 0].long())
    for inputs in batches(3, 40):
        assert torch.equal(labels(inputs), inputs[:, 0].long())


def test_infinite_values_come_from_the_exact_pass() -> None:
    """Half precision ends at 65,504; a logit beyond that leads by an infinite margin and is nevertheless wrong."""
    screen = HalfPrecisionScreen(lambda x: torch.where(x.abs() > 2, x * torch.inf, x), lambda x: x)
    for inputs in batches(3, 400):
        inputs[:, 1] *= -2
        assert torch.equal(screen(inputs), inputs)


def test_a_model_that_fails_in_the_quick_pass_is_called_exactly() -> None:
    tries = []

    def quick(inputs: Tensor) -> Tensor:
        tries.append(len(inputs))
        raise InputError("The model failed on inputs of half precision.")

    noisy = Noisy(NET, 0.0)
    screen = HalfPrecisionScreen(quick, noisy.exact)
    for inputs in batches(3, 40):
        assert torch.equal(screen(inputs), NET(inputs))
    assert tries == [40]
    assert noisy.rows == 120


@needs_cuda
def test_screened_labels_on_cuda_are_those_of_full_precision() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)
    )
    net(torch.rand(1, 3, 16, 16))
    net.cuda()
    inputs = torch.rand(2, 3, 16, 16)
    t = torch.linspace(0, 1, 20_000)[:, None, None, None]
    line = ((1 - t) * inputs[0] + t * inputs[1]).cuda()
    with open_labeller(net, line, (3, 16, 16)) as labeller:
        found = labeller(line)
    with torch.no_grad(), rs.network.full_precision():
        wanted = net(line).argmax(1)
    assert torch.equal(found, wanted)
