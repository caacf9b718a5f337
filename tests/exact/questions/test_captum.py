"""The class with Captum's signature against Captum itself."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import regionscope.captum
from regionscope.errors import InputError, MissingLibrary
from regionscope.extras import import_extra
from small_slices import mlp

pytestmark = pytest.mark.slow
attr: Any = None


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    """Imported by the first test, not while tests are collected: it takes a second."""
    global attr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attr = pytest.importorskip("captum.attr", reason="the extra 'captum' is not installed")


NET = mlp(6, 12, 12, 3, seed=3).double()
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
BASES = torch.randn(4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def both(model: nn.Module, *args: Any, multiply: bool = True, **options: Any) -> tuple[Tensor, Tensor]:
    exact = regionscope.captum.IntegratedGradients(model, multiply_by_inputs=multiply).attribute(*args, **options)
    other = attr.IntegratedGradients(model, multiply_by_inputs=multiply)
    approximate = other.attribute(*args, n_steps=2000, method="riemann_middle", **options)
    return exact, approximate


@pytest.mark.parametrize(
    ("target", "baselines"),
    [(1, None), (torch.tensor(2), 0.5), (torch.tensor([0, 1, 2, 1]), BASES), ([2, 1, 0, 0], BASES[:1])],
    ids=["no baseline", "a number", "a baseline for each input", "a baseline for all"],
)
def test_it_is_what_captum_approaches(target: Any, baselines: Any) -> None:
    exact, approximate = both(NET, X, baselines, target)
    assert exact.shape == X.shape
    assert exact.dtype == X.dtype
    assert float((exact - approximate).norm() / exact.norm()) < 2e-3


def test_whole_numbers_have_attributions_that_are_not_whole() -> None:
    integers = torch.tensor([[1, 2, 3, 0, 1, 5]])
    exact = regionscope.captum.IntegratedGradients(NET).attribute(integers, target=1)
    wanted = regionscope.captum.IntegratedGradients(NET).attribute(integers.double(), target=1)
    assert exact.dtype == torch.get_default_dtype()
    torch.testing.assert_close(exact.double(), wanted, rtol=1e-6, atol=1e-6)


def test_mean_gradients_and_tuples() -> None:
    exact, approximate = both(NET, X, BASES, 1, multiply=False)
    assert float((exact - approximate).norm() / exact.norm()) < 2e-3
    exact, approximate = both(NET, (X,), (BASES,), 1)
    assert isinstance(exact, tuple)
    torch.testing.assert_close(exact[0], approximate[0], rtol=0.02, atol=2e-3)


def test_outputs_with_several_axes_take_an_index_for_each() -> None:
    net = nn.Sequential(NET, nn.Unflatten(1, (3, 1)))
    for target in ((2, 0), [(0, 0), (1, 0), (2, 0), (0, 0)]):
        exact, approximate = both(net, X, 0, target)
        assert float((exact - approximate).norm() / exact.norm()) < 2e-3


def test_it_stands_in_for_captum() -> None:
    exact = regionscope.captum.IntegratedGradients(NET)
    assert isinstance(exact, attr.IntegratedGradients)
    _, delta = exact.attribute(X, target=1, return_convergence_delta=True)
    assert float(delta.abs().max()) < 1e-13
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        smooth = attr.NoiseTunnel(exact).attribute(X, target=1, nt_samples=2, stdevs=0.1)
    assert smooth.shape == X.shape


def test_single_precision_inputs_get_single_precision_attributions() -> None:
    found = regionscope.captum.IntegratedGradients(mlp(6, 12, 12, 3, seed=3)).attribute(X.float(), target=0)
    assert found.dtype == torch.float32


@pytest.mark.parametrize(
    ("model", "inputs", "options", "sentence"),
    [
        (NET.forward, X, {}, "Expected an nn.Module, got method"),
        (NET, (X, X), {}, "got a tuple of 2"),
        (NET, X, {"baselines": BASES[:2]}, "Expected baselines of shape"),
        (NET, X, {"additional_forward_args": (1,)}, "Expected no additional_forward_args"),
    ],
)
def test_what_captum_takes_and_this_does_not(model: Any, inputs: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        regionscope.captum.IntegratedGradients(model).attribute(inputs, target=0, **options)


def test_other_names_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="no attribute 'DeepLift'"):
        regionscope.captum.DeepLift  # noqa: B018 - the access is the test
    assert import_extra("captum.attr", who="", library="", extra="") is attr


@pytest.mark.parametrize("module", ["captum.attr", "captum.log"])
def test_each_module_that_is_missing_is_named_with_its_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    regionscope.captum._integrated_gradients.cache_clear()
    wanted = r"regionscope\.captum needs captum, which is not installed\. Run: pip install 'regionscope\[captum\]'"
    with pytest.raises(MissingLibrary, match=wanted):
        regionscope.captum.IntegratedGradients  # noqa: B018 - the access is the test
