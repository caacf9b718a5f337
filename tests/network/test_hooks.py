"""Hooks that change values are refused by name; hooks that only look may stay, and fire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

import regionscope as rs
from regionscope.network import trace
from regionscope.network.output import select_output
from regionscope.verification.property import Case, Constraint, Property

SEGMENT = rs.Segment([-1.0, -1.0], [1.0, 1.0])
STEERING = 1e-6 * torch.ones(8)


def network() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Linear(8, 2))


def patch(module: nn.Module, given: Any, output: Tensor) -> None:
    output[..., 0] = 1.0


def with_named(module: nn.Module, args: Any, kwargs: Any) -> Any:
    return (2 * args[0],), kwargs


def rescale(module: Any, args: Any) -> None:
    module.weight.data.mul_(2)


def noisy(module: nn.Module, args: Any, output: Tensor) -> Tensor:
    return output + 1e-3 * torch.randn(output.shape)


STEERS: dict[str, tuple[Callable[[nn.Sequential], Any], str]] = {
    "steering": (lambda n: n[1].register_forward_hook(lambda m, x, y: y + STEERING), r"a hook changes .*'1' \(ReLU\)"),
    "patching": (lambda n: n[2][0].register_forward_hook(patch), r"a hook changes .*'2\.0' \(Linear\)"),
    "half": (lambda n: n[0].register_forward_hook(lambda m, x, y: y.half().to(y)), r"'0' \(Linear\)"),
    "noise": (lambda n: n[0].register_forward_hook(noisy), r"'0' \(Linear\)"),
    "pre-hook": (lambda n: n[3].register_forward_pre_hook(lambda m, x: (x[0].relu() - 1,)), r"'3' \(Linear\)"),
    "keywords": (lambda n: n[2].register_forward_pre_hook(with_named, with_kwargs=True), r"'2' \(Sequential\)"),
    "reshaping": (lambda n: n.register_forward_pre_hook(lambda m, x: (x[0].flatten(1)[:, None],)), "module Sequential"),
    "dead": (lambda n: n[0].register_forward_hook(lambda m, x, y: y.clamp(min=0)), r"'0' \(Linear\)"),
    "root": (lambda n: n.register_forward_hook(lambda m, x, y: -y), "the module Sequential"),
    "weights": (lambda n: n[3].register_forward_pre_hook(rescale), r"the hooks of '3' \(Linear\) change the output"),
    "global": (
        lambda n: register_module_forward_hook(lambda m, x, y: y + 1 if isinstance(m, nn.ReLU) else None),
        r"a global hook changes those of '1' \(ReLU\)",
    ),
    "global pre-hook": (
        lambda n: register_module_forward_pre_hook(lambda m, x: (2 * x[0],) if isinstance(m, nn.ReLU) else None),
        r"a global hook changes those of '1' \(ReLU\)",
    ),
}


@contextmanager
def hooked(register: Callable[[Any], Any], net: nn.Module) -> Iterator[nn.Module]:
    handle = register(net)
    try:
        yield net
    finally:
        handle.remove()


@pytest.mark.parametrize("kind", STEERS)
def test_a_hook_that_steers_is_refused(kind: str) -> None:
    register, sentence = STEERS[kind]
    net, random = network(), torch.get_rng_state()
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    expected = rs.linear_regions(net, SEGMENT).n_activation_regions
    with hooked(register, net):
        for read in (lambda: rs.linear_regions(net, SEGMENT), lambda: trace(net, (2,))):
            with pytest.raises(rs.UntraceableModel, match=rf"(?s){sentence}.*Fold the change .* or remove the hook"):
                read()
    assert rs.linear_regions(net, SEGMENT).n_activation_regions == expected
    assert all(torch.equal(value, weights[name]) for name, value in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)


def test_the_hook_is_compared_on_the_slice() -> None:
    """This one steers only where the slice lies."""
    net = network()
    net[0].register_forward_pre_hook(lambda m, x: (torch.where(x[0] > 50, 2 * x[0], x[0]),))
    trace(net, (2,))
    rs.linear_regions(net, SEGMENT)
    far = rs.Segment([100.0, 100.0], [101.0, 101.0])
    case = Case((Fraction(100),) * 2, (Fraction(101),) * 2, ((Constraint(((0, Fraction(1)),), Fraction(0)),),))
    for measure in (
        lambda: rs.linear_regions(net, far),
        lambda: rs.decision_regions(net, [far]),
        lambda: rs.level_set(net, rs.Box([100.0, 100.0], torch.eye(2), 1.0), target=0),
        lambda: rs.first_flip(net, [100.0, 100.0], [1.0, 0.0], max_distance=1.0),
        lambda: rs.integrated_gradients(net, torch.full((1, 2), 100.0), target=0),
        lambda: rs.region_count(net, torch.full((4, 2), 100.0) + torch.eye(2).repeat(2, 1), slices=2, method="exact"),
        lambda: rs.verify(net, Property(2, 2, (case,), None, "")),
    ):
        with pytest.raises(rs.UntraceableModel, match=r"a hook changes those of '0' \(Linear\)"):
            measure()


def test_a_hook_that_looks_changes_nothing_and_fires() -> None:
    net, seen = network(), list[Tensor]()
    expected = rs.linear_regions(net, SEGMENT)
    net[1].register_forward_hook(lambda m, x, y: seen.append(y))
    net[2].register_forward_pre_hook(lambda m, x: x)
    net[3].register_forward_hook(lambda m, x, y: y.double())  # the same numbers
    part = rs.linear_regions(net, SEGMENT)
    assert len(seen) == 1
    ends = torch.relu(net[0](torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))).detach()
    assert torch.allclose(seen[0][[0, -1]], ends)
    assert torch.equal(part.vertices, expected.vertices)
    part.check()
    with hooked(lambda _: register_module_forward_hook(lambda m, x, y: None), net):
        assert rs.linear_regions(net, SEGMENT).n_activation_regions == expected.n_activation_regions


def test_hooks_of_a_wrapper_run_too() -> None:
    wrapped = nn.DataParallel(network())
    wrapped.register_forward_hook(lambda m, x, y: None)
    rs.linear_regions(wrapped, SEGMENT)
    wrapped.register_forward_hook(lambda m, x, y: y + 1)
    for net in (wrapped, nn.Sequential(wrapped), select_output(wrapped, lambda y: y)):
        with pytest.raises(rs.UntraceableModel, match="a hook changes"):
            rs.linear_regions(net, SEGMENT)


def test_hooks_of_a_wrapper_run_where_the_network_is_sampled() -> None:
    wrapped = nn.DataParallel(network())
    inputs = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    counts = {"plain": rs.region_count(wrapped, inputs, slices=3, method="grid").value}
    wrapped.register_forward_hook(lambda m, x, y: x[0])
    for name, net in {"hooked": wrapped, "selected": select_output(wrapped, lambda y: y)}.items():
        counts[name] = rs.region_count(net, inputs, slices=3, method="grid").value
    assert counts["plain"] == 1.0 < counts["hooked"] == counts["selected"]


def test_a_hook_on_a_module_in_a_plain_list() -> None:
    net = network()

    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = [net]

        def forward(self, x: Tensor) -> Tensor:
            return self.parts[0](x)

    model = Listed()
    model.inner = net[0]
    assert rs.linear_regions(model, SEGMENT).n_activation_regions > 1
    net[1].register_forward_hook(lambda m, x, y: y + 1)
    with pytest.raises(rs.UntraceableModel, match="a hook changes those of the module ReLU"):
        rs.linear_regions(model, SEGMENT)


def test_a_copy_that_cannot_run_warns() -> None:
    net = network()
    net[1].register_forward_hook(lambda m, x, y: y @ torch.ones(3))
    with pytest.warns(UserWarning, match=r"a copy fails on inputs of shape \(v, 2\): RuntimeError"):
        part = rs.linear_regions(net, SEGMENT)
    net[1]._forward_hooks.clear()
    assert torch.equal(part.vertices, rs.linear_regions(net, SEGMENT).vertices)


def test_a_program_is_not_rebound_to_a_network_with_hooks() -> None:
    net = network()
    program = trace(net, (2,))
    assert program.can_rebind(net)
    net[1].register_forward_hook(lambda m, x, y: y + 1)
    assert not program.can_rebind(net)
