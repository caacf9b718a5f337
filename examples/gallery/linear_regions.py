"""The linear regions of a network

Every polygon is a region on which the network is one affine map. Nothing is sampled: corners and edges are exact.
"""

import regionscope as rs
from regionscope import plot
from regionscope_lab.zoo import mlp

model = mlp([2, 48, 48, 48, 2], seed=0)
square = rs.Box(center=[0, 0], directions=[[1, 0], [0, 1]], radius=1)
part = rs.linear_regions(model, square)

plot.regions_figure(part).savefig("linear_regions.png")
print(f"An untrained 2-[48,48,48]-2 network cuts the square into {part.n_linear_regions:,} linear regions.")
