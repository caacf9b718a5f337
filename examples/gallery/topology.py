"""Holes in a decision region

Components and holes of each class, exact from the pieces of the partition: no grid can miss a thin bridge here.
"""

import torch

import regionscope as rs
from regionscope import plot
from regionscope_lab.data import Dataset
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

points = 2 * torch.rand(3000, 2, generator=torch.Generator().manual_seed(0)) - 1
centres = torch.tensor([[-0.5, -0.5], [0.5, 0.5], [0.5, -0.45], [-0.45, 0.5]])
inside = torch.cdist(points, centres).amin(1) < 0.25
data = Dataset("four discs", points, inside.long(), 2)
model = mlp([2, 32, 32, 2], seed=0)
train(model, data, Training(epochs=60, optimizer="adam", lr=5e-3, batch_size=50), seed=0)
square = rs.Box(center=[0, 0], directions=[[1, 0], [0, 1]], radius=1)
dec = rs.decision_regions(model, square)
found = dec.topology()

plot.topology_figure(dec, found).savefig("topology.png")
outer = found[0]
print(
    f"Class 0 has {outer.holes} holes, Euler characteristic {outer.euler}, boundary {outer.boundary_length:.2f} long."
)
