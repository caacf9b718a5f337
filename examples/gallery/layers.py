"""Regions after each layer

The regions after each fold, with the walls that it adds in black, as in Figure 2 of Qi and Wei 2023.
"""

import regionscope as rs
from regionscope import plot
from regionscope_lab.data import two_moons
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

model = mlp([2, 12, 12, 12, 2], seed=0)
train(model, two_moons(1000, noise=0.2, seed=0), Training(epochs=40, optimizer="adam", lr=5e-3, batch_size=50), seed=0)
square = rs.Box(center=[0, 0], directions=[[1, 0], [0, 1]], radius=1)
part = rs.linear_regions(model, square)

plot.layer_panels_figure(part).savefig("layers.png")
first, second, third = part.by_layer.values()
print(f"The first layer makes {first} regions, the second cuts them into {second}, the third into {third}.")
