"""Wrappers that training puts around a network do not change what is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import regionscope as rs
from regionscope.monitor import no_trace

X = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
BOX = rs.Box([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 2.0)


def network() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(
            nn.Linear(2, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 16), nn.ReLU(),
            nn.Linear(16, 2),
        )  # fmt: skip


def fabric(precision: str) -> Callable[[nn.Module], nn.Module]:
    def wrap(net: nn.Module) -> nn.Module:
        wrapped: Any = pytest.importorskip("lightning.fabric").Fabric(accelerator="cpu", precision=precision)
        return wrapped.setup(net)

    return wrap


def accelerated(net: nn.Module) -> nn.Module:
    accelerate: Any = pytest.importorskip("accelerate")
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    try:
        return accelerate.Accelerator(cpu=True, mixed_precision="bf16").prepare(net)
    finally:
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


def compiled_forward(net: nn.Module) -> nn.Module:
    net.forward = torch.compile(net.forward, backend="eager")
    return net


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrap",
    [fabric("bf16-mixed"), fabric("bf16-true"), accelerated, compiled_forward],
    ids=["fabric mixed", "fabric half", "accelerate", "compiled forward"],
)
def test_a_wrapper_of_a_training_changes_no_number(wrap: Callable[[nn.Module], nn.Module]) -> None:
    net = network()
    wrapped = wrap(net).train()
    saved = network().to(net[0].weight.dtype)  # what a user loads the checkpoint into
    saved.load_state_dict(net.state_dict())
    expected = rs.local_complexity(saved, X, radius=0.1)
    found = rs.local_complexity(wrapped, X, radius=0.1)
    assert torch.equal(found.total, expected.total)
    assert found.by_layer.keys() == expected.by_layer.keys()
    assert rs.linear_regions(wrapped, BOX).n_linear_regions == rs.linear_regions(saved, BOX).n_linear_regions
    with no_trace(wrapped) as private:
        inputs = X.to(net[0].weight.dtype)
        assert torch.equal(private(inputs), saved.eval()(inputs))
    assert wrapped.training
    assert all(torch.equal(a, b) for a, b in zip(net.buffers(), saved.buffers(), strict=True))


def test_a_forward_pass_that_a_user_has_replaced_is_measured() -> None:
    net = network()
    net._original_forward = net.forward
    net.forward = lambda x: 2 * net._original_forward(x)
    with no_trace(net) as private:
        assert torch.equal(private(X), net.eval()(X))


@pytest.fixture
def one_process(tmp_path: Any) -> Iterator[None]:
    """A group of one process, in which a model can be distributed."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("needs torch.distributed with gloo")
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("one_process")
def test_a_measure_in_one_process_asks_nothing_of_the_others() -> None:
    net = network()
    with no_trace(nn.parallel.DistributedDataParallel(net)) as private:
        assert type(private) is nn.Sequential  # the forward pass of the wrapper would send buffers


@pytest.mark.slow
@pytest.mark.usefixtures("one_process")
def test_weights_split_over_processes_are_refused() -> None:
    fully_shard = getattr(pytest.importorskip("torch.distributed.fsdp"), "fully_shard", None)
    if fully_shard is None:
        pytest.skip("needs fully_shard")
    split = fully_shard(network(), mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (1,)))
    for measure in (
        lambda: rs.local_complexity(split, X),
        lambda: rs.linear_regions(split, BOX),
        lambda: rs.measures.parameter_norms(split),
        lambda: rs.Monitor({"l2": lambda m: rs.measures.parameter_norms(m).l2}, when="every step")(0, split),
    ):
        with pytest.raises(rs.InputError, match=r"got weights that are split over processes \(FSDP .* Gather them"):
            measure()
