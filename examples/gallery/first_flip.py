"""Extremes and the nearest class change

Left: the margin between two classes on a square, with its exact extremes. Right: from one input the first point in each
direction where the predicted class changes, found without computing the regions behind it.
"""

import math

import regionscope as rs
from regionscope import plot
from regionscope.plot import style
from regionscope_lab.data import two_moons
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

data = two_moons(1000, noise=0.15, seed=0)
model = mlp([2, 32, 32, 2], seed=0)
train(model, data, Training(epochs=40, optimizer="adam", lr=5e-3, batch_size=50), seed=0)
square = rs.Box(center=[0, 0], directions=[[1, 0], [0, 1]], radius=1)
part, dec = rs.linear_regions(model, square), rs.decision_regions(model, square)
found = part.extremes((1, 0))

figure, (left, right) = style.figure(1, 2, width=8.8, height=4)
plot.region_values(part, found.by_region.max, ax=left, label="largest margin on the region")
left.plot(*found.coords_of_min, "v", *found.coords_of_max, "^", color=style.VERMILLION, clip_on=False)
plot.decision_regions(dec, ax=right)
start, distances = [0.0, 0.45], []
for turn in range(48):
    angle = 2 * math.pi * turn / 48
    flip = rs.first_flip(model, start, [math.cos(angle), math.sin(angle)], max_distance=3.0)
    if flip is not None:
        distances.append(flip.distance)
        right.plot(*zip(start, flip.point, strict=True), ".-", color=style.BLACK, linewidth=0.7, markersize=4)
style.map_axes([left, right])
figure.savefig("first_flip.png")
print(f"The margin lies between {found.min:.1f} and {found.max:.1f}; the nearest flip is {min(distances):.3f} away.")
