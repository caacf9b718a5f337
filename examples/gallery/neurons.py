"""The zero lines of the neurons

On the plane through three training images, each line is where a neuron switches, in the colour of its layer, as in
Figure 1 of Humayun et al. 2023.
"""

import regionscope as rs
from regionscope import plot
from regionscope_lab.config import DataSpec
from regionscope_lab.data import load
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

split = load(DataSpec(name="digits", options={"flatten": True}))
model = mlp([64, 50, 50, 50, 10], seed=0)
train(model, split, Training(epochs=60, optimizer="adam", lr=1e-3), seed=0)

plane = rs.Box.through(split.train.inputs[[0, 1, 2]], margin=0.2)
part, dec = rs.linear_regions(model, plane), rs.decision_regions(model, plane)

plot.neurons_figure(part, dec).savefig("neurons.png")
walls = [int((part.walls.layer == i).sum()) for i in range(len(part.by_layer))]
print(f"The three layers draw {walls[0]:,}, {walls[1]:,} and {walls[2]:,} edges; the later ones bend at the earlier.")
