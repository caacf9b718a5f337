"""A plane through three digits: linear regions and decision regions of a trained network, with thumbnails.

``python examples/three_images.py`` draws the picture of the README. The weights are stored beside this file, and the
regions are exact, so that the numbers are the same on every machine. ``--train`` trains the network again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from matplotlib.figure import Figure
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import regionscope as rs
from regionscope import plot
from regionscope.plot import style
from regionscope_lab.data import digits
from regionscope_lab.zoo import mlp

WEIGHTS = Path(__file__).with_suffix(".safetensors")
SIZES = [64, 64, 64, 10]
CHOSEN = [68, 1489, 658]  # a 4, a 5 and a 2
NAMES = [f"digit {i}" for i in range(10)]


def train(inputs: Tensor, labels: Tensor) -> nn.Module:
    """The network of the picture, trained for a minute and rounded to float16."""
    model = mlp(SIZES, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    order = torch.Generator().manual_seed(0)
    for _ in range(100):
        for batch in torch.randperm(len(inputs), generator=order).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
            optimizer.step()
    return model.half().float()


def draw(part: rs.Partition, dec: rs.DecisionRegions, inputs: Tensor, labels: Tensor) -> Figure:
    """Linear regions on the left, shaded by class; decision regions with the nearest digits on the right."""
    plane, images = dec.partition.slice, inputs[CHOSEN]
    figure, (left, right) = style.figure(1, 2, width=10.5, height=3.6)
    plot.decision_mosaic(dec, ax=left)
    left.set_title(f"{part.n_linear_regions:,} linear regions")
    plot.decision_regions(dec, ax=right, class_names=NAMES)
    plot.points(plane, inputs, labels, ax=right, max_distance=1.8, class_names=NAMES)
    right.set_title(f"{dec.count} decision regions")
    style.map_axes([left, right], ticks=False)
    for ax in (left, right):
        plot.thumbnails(plane, images, labels[CHOSEN], ax=ax, size=0.19)
    return figure


def main() -> None:
    """Draw the picture, and print its numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("three_images.png"), help="PNG, PDF or SVG file to write")
    parser.add_argument("--train", action="store_true", help="train the network again and store its weights")
    options = parser.parse_args()
    data = digits()
    inputs, labels = data.inputs.flatten(1), data.labels
    model = train(inputs, labels) if options.train else mlp(SIZES, seed=0)
    if options.train:
        save_file({name: value.half() for name, value in model.state_dict().items()}, WEIGHTS)
    else:
        model.load_state_dict({name: value.float() for name, value in load_file(WEIGHTS).items()})
    plane = rs.Box.through(inputs[CHOSEN], margin=0.45)
    part, dec = rs.linear_regions(model, plane), rs.decision_regions(model, plane)
    draw(part, dec, inputs, labels).savefig(options.out)
    print(f"{part.n_linear_regions:,} linear regions and {dec.count} decision regions on the plane")


if __name__ == "__main__":
    main()
