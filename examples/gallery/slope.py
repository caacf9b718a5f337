"""The slope on each region

Any number for each region can be its colour; here the norm of its affine map.
"""

import regionscope as rs
from regionscope import plot
from regionscope.plot import style
from regionscope_lab.data import two_moons
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

data = two_moons(1000, noise=0.2, seed=0)
model = mlp([2, 48, 48, 2], seed=0)
train(model, data, Training(epochs=40, optimizer="adam", lr=5e-3, batch_size=50), seed=0)
square = rs.Box(center=[0, 0], directions=[[1, 0], [0, 1]], radius=1)
part, dec = rs.linear_regions(model, square), rs.decision_regions(model, square)
slope = part.maps.slope.flatten(1).norm(dim=1)

figure, (ax,) = style.figure(1, 1, width=4.8, height=4)
plot.region_values(part, slope, ax=ax, label="norm of the slope")
plot.decision_boundary(dec, ax=ax, colour="white")
style.map_axes([ax])
figure.savefig("slope.png")
mean = float((slope * part.sizes).sum() / part.sizes.sum())
print(f"The slope is {mean:.0f} on average over the area and {float(slope.max()):.0f} at the steepest.")
