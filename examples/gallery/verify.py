"""Verifying a property

A property in the VNN-LIB format says what a counterexample would be; the star is the one with the largest margin.
"""

from pathlib import Path

import torch

import regionscope as rs
from regionscope import plot
from regionscope.plot import style
from regionscope_lab.data import two_moons
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

PROPERTY = """
(declare-const X_0 Real) (declare-const X_1 Real) (declare-const Y_0 Real) (declare-const Y_1 Real)
(assert (>= X_0 -1)) (assert (<= X_0 1)) (assert (>= X_1 -1)) (assert (<= X_1 1))
(assert (>= Y_1 (+ Y_0 5.5)))
"""
data = two_moons(1000, noise=0.2, seed=0)
model = mlp([2, 48, 48, 2], seed=0)
train(model, data, Training(epochs=20, optimizer="adam", lr=5e-3, batch_size=50), seed=0)
Path("property.vnnlib").write_text(PROPERTY)
found = rs.verify(model, rs.read_vnnlib("property.vnnlib"))
Path("property.vnnlib").unlink()

part = rs.linear_regions(model, rs.Box.between(-1, 1, (2,)))
lead = torch.stack([part.outputs[part.corners[a:b]].diff().max() for a, b in part.offsets.unfold(0, 2, 1)])
figure, (ax,) = style.figure(1, 1, width=4.8, height=4)
plot.region_values(part, lead, ax=ax, label="largest lead of class 1 in each region")
assert found.witness is not None
ax.plot(*found.witness.tolist(), "*", color="white", markeredgecolor="black", markersize=14, clip_on=False)
style.map_axes([ax])
figure.savefig("verify.png")
regions = f"{found.n_regions} of {part.n_activation_regions:,} regions"
print(f"The property is {found.verdict} with margin {found.margin:.2f}, decided on {regions}.")
