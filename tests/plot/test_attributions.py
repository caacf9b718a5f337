"""Pictures of attributions: every number is where it belongs, and zero is white."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from torch import nn

import regionscope as rs
from regionscope import plot
from regionscope.errors import InputError
from regionscope_lab.zoo import mlp

X = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
VECTOR = rs.integrated_gradients(mlp([6, 8, 8, 3], seed=0), X, target=(2, 0))
MANY = rs.integrated_gradients(mlp([30, 8, 2], seed=0), torch.ones(1, 30), target=torch.tensor([0.5, 2.0]))


def colour_image(channels: int) -> rs.Attributions:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 3 * 4, 2))
    return rs.integrated_gradients(net, torch.rand(2, channels, 5, 6), target=1)


def drawn(found: rs.Attributions, *where: int, **options: Any) -> Any:
    return plot.attributions(found, *where, ax=Figure().add_subplot(), **options)


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_is_a_heat_map_around_zero(channels: int) -> None:
    found = colour_image(channels)
    heat = drawn(found, 1)
    assert isinstance(heat, AxesImage)
    expected = found.attributions[1].sum(0).numpy()
    np.testing.assert_allclose(np.asarray(heat.get_array()), expected)
    assert heat.norm.vmax == -heat.norm.vmin == pytest.approx(np.abs(expected).max())
    red, blue, white = (np.array(heat.cmap(heat.norm(value))[:3]) for value in (heat.norm.vmax, heat.norm.vmin, 0.0))
    assert red[0] > red[2]
    assert blue[2] > blue[0]
    assert white.min() > 0.95
    assert heat.axes.get_title() == "output 1"
    flat = drawn(VECTOR, 2, image_shape=(2, 3))
    np.testing.assert_allclose(np.asarray(flat.get_array()), VECTOR.attributions[2].view(2, 3).numpy())
    nothing = rs.integrated_gradients(mlp([4, 3, 2], seed=0), torch.zeros(1, 4), target=0)
    heat = drawn(nothing, image_shape=(2, 2))
    assert np.asarray(heat.cmap(heat.norm(heat.get_array())))[..., :3].min() > 0.95  # white


def test_a_vector_is_bars_with_the_largest_on_top() -> None:
    names = list("abcdef")
    bars = drawn(VECTOR, 1, names=names)
    assert isinstance(bars, BarContainer)
    values = VECTOR.attributions[1]
    order = values.abs().argsort(descending=True).tolist()
    lengths = [bar.get_width() for bar in bars.patches]
    np.testing.assert_allclose(lengths, values[order].numpy())
    ax: Any = bars.patches[0].axes
    assert [text.get_text() for text in ax.get_yticklabels()] == [f"{names[i]} = {float(X[1, i]):.3g}" for i in order]
    bottom, top = ax.get_ylim()
    assert bottom > top  # the first bar is above the others
    assert {tuple(bar.get_facecolor()) for bar in bars.patches if bar.get_width() > 0}.isdisjoint(
        {tuple(bar.get_facecolor()) for bar in bars.patches if bar.get_width() < 0}
    )
    assert ax.get_xlabel() == f"attribution, sum {float(values.sum()):+.3g}".replace("-", "\N{MINUS SIGN}")


def test_many_bars_add_up_to_the_same_sum() -> None:
    bars = drawn(MANY)
    assert len(bars.patches) == 21
    assert sum(bar.get_width() for bar in bars.patches) == pytest.approx(float(MANY.attributions.sum()))
    ax: Any = bars.patches[0].axes
    assert ax.get_yticklabels()[-1].get_text() == "10 others"
    assert ax.get_title() == "weighted outputs"


def test_the_figure_of_an_image_shows_the_input_beside_it() -> None:
    found = colour_image(3)
    figure = plot.attribution_figure(found, 1)
    figure.savefig(io.BytesIO())
    left, right, bar = figure.axes
    assert found.paths is not None
    pixels = found.paths.inputs[1].permute(1, 2, 0).numpy()
    shown = np.asarray(left.images[0].get_array())
    np.testing.assert_allclose(shown, (pixels - pixels.min()) / np.ptp(pixels), atol=1e-6)
    assert (left.get_title(), right.get_title()) == ("input", "output 1")
    assert bar.get_ylabel() == f"attribution, sum {float(found.attributions[1].sum()):+.3g}".replace(
        "-", "\N{MINUS SIGN}"
    )


def test_what_was_pickled_is_drawn_without_its_input() -> None:
    image, vector = (pickle.loads(pickle.dumps(found)) for found in (colour_image(1), VECTOR))
    assert [ax.get_title() for ax in plot.attribution_figure(image).axes][:1] == ["attributions"]
    (ax,) = plot.attribution_figure(vector).axes
    assert ax.get_yticklabels()[0].get_text().startswith("input ")
    assert "=" not in ax.get_yticklabels()[0].get_text()


def test_mistakes_are_sentences() -> None:
    for index in (3, -1, 0.5):
        with pytest.raises(InputError, match="Expected an index from 0 to 2, got"):
            drawn(VECTOR, index)
    with pytest.raises(InputError, match="Expected 6 names, got 1"):
        plot.attribution_figure(VECTOR, names=["a"])
    with pytest.raises(InputError, match="Expected names for a vector only"):
        plot.attribution_figure(VECTOR, image_shape=(2, 3), names=list("abcdef"))
    with pytest.raises(InputError, match=r"Expected images, got inputs of shape \(6,\)"):
        plot.attribution_figure(VECTOR, image_shape=(2, 2))
    with pytest.raises(InputError, match="integrated_gradients"):
        plot.attributions(VECTOR.attributions)


def test_the_title_names_the_classes() -> None:
    (ax,) = plot.attribution_figure(VECTOR, class_names=["cat", "dog", "fox"]).axes
    assert ax.get_title() == "fox minus cat"
    _, heat, _ = plot.attribution_figure(colour_image(1), class_names=["cat", "dog"]).axes
    assert heat.get_title() == "dog"
    with pytest.raises(InputError, match=r"Expected 3 class names, got 1\."):
        plot.attribution_figure(VECTOR, class_names=["cat"])
