"""A plane through three digits: linear regions, decision regions, and distances to the nearest fold.

``python examples/three_images.py`` draws the picture of the README. The weights are stored beside this file, and the
regions are exact, so that the numbers are the same on every machine. ``--train`` trains the network again.
"""

from __future__ import annotations

import argparse
from collections import OrderedDict
from pathlib import Path

import torch
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_digits
from torch import Tensor, nn

import regionscope as rs
from regionscope import plot
from regionscope.plot import style

WEIGHTS = Path(__file__).with_suffix(".safetensors")
CHOSEN = [68, 1489, 658]  # a 4, a 5 and a 2
NAMES = [f"digit {i}" for i in range(10)]
GRID = 200  # points along each axis at which distances are drawn


def network() -> nn.Module:
    """Two hidden layers of 64 units."""
    torch.manual_seed(0)
    layers = (nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    names = ("linear1", "relu1", "linear2", "relu2", "linear3")
    return nn.Sequential(OrderedDict(zip(names, layers, strict=True)))


def train(inputs: Tensor, labels: Tensor) -> nn.Module:
    """The network of the picture, trained for a minute and rounded to float16."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    order = torch.Generator().manual_seed(0)
    for _ in range(100):
        for batch in torch.randperm(len(inputs), generator=order).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
            optimizer.step()
    return model.half().float()


def distances(model: nn.Module, plane: rs.Box) -> Tensor:
    """(GRID, GRID): the distance from each point of the plane to the nearest fold, in all 64 input dimensions."""
    axes = [torch.linspace(-float(r), float(r), GRID, dtype=torch.float64) for r in plane.radius]
    coords = torch.cartesian_prod(*axes)
    return rs.regions_at(model, plane.embed(coords)).distance.reshape(GRID, GRID)


def draw(model: nn.Module, plane: rs.Box, inputs: Tensor, labels: Tensor) -> tuple[Figure, str]:
    """Linear regions, shaded by class; decision regions with the nearest digits; distances to the nearest fold."""
    part, dec = rs.linear_regions(model, plane), rs.decision_regions(model, plane)
    figure, (left, middle, right) = style.figure(1, 3, width=13, height=4.2)
    plot.decision_mosaic(dec, ax=left)
    left.set_title(f"{part.n_linear_regions:,} linear regions")
    plot.decision_regions(dec, ax=middle, class_names=NAMES)
    plot.points(plane, inputs, labels, ax=middle, max_distance=1.8, class_names=NAMES)
    middle.set_title(f"{dec.count} decision regions")
    style.map_axes([left, middle, right], ticks=False)
    plot.thumbnails(plane, inputs[CHOSEN], labels[CHOSEN], ax=left, size=0.19)
    x, y = (float(radius) for radius in plane.radius)
    values = distances(model, plane)
    scale = LogNorm(float(values[values > 0].quantile(0.02)), float(values.max()), clip=True)
    image = right.imshow(values.T.numpy(), origin="lower", extent=(-x, x, -y, y), cmap="cividis", norm=scale)
    plot.decision_boundary(dec, ax=right)
    right.set_title("distance to the nearest fold")
    figure.colorbar(image, ax=right, shrink=0.8)
    return figure, f"{part.n_linear_regions:,} linear regions and {dec.count} decision regions on the plane"


def main() -> None:
    """Draw the picture, and print its numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("three_images.png"), help="PNG, PDF or SVG file to write")
    parser.add_argument("--train", action="store_true", help="train the network again and store its weights")
    options = parser.parse_args()
    digits = load_digits()
    inputs = torch.tensor(digits.data / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    model = train(inputs, labels) if options.train else network()
    if options.train:
        save_file({name: value.half() for name, value in model.state_dict().items()}, WEIGHTS)
    else:
        model.load_state_dict({name: value.float() for name, value in load_file(WEIGHTS).items()})
    figure, sentence = draw(model, rs.Box.through(inputs[CHOSEN], margin=0.45), inputs, labels)
    figure.savefig(options.out)
    print(sentence)


if __name__ == "__main__":
    main()
