"""How far digits are from the nearest fold

The exact distance of test images to the boundary of their linear region, in all 64 dimensions, for images that the
network predicts right and wrong.
"""

import regionscope as rs
from regionscope import plot
from regionscope_lab.config import DataSpec
from regionscope_lab.data import load
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

split = load(DataSpec(name="digits", normalise=False, options={"flatten": True}))
model = mlp([64, 64, 64, 10], seed=0)
train(model, split, Training(epochs=5, optimizer="adam", lr=3e-3), seed=0)
at = rs.regions_at(model, split.test.inputs)

plot.distance_figure(at, split.test.labels).savefig("point_distances.png")
print(f"{len(at)} images lie in {at.n_regions} regions; the median distance to a fold is {at.distance.median():.3f}.")
