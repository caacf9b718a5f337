"""A proven map of a network with GELU

Every coloured cell has a proven label. The hatched cells along the boundary are undecided: half a percent of the area.
"""

import torch
from torch import nn

import regionscope as rs
from regionscope import plot
from regionscope.plot import style
from regionscope_lab.data import gaussian_quantiles
from regionscope_lab.train import Training, train

data = gaussian_quantiles(1000, classes=3, seed=0)
with torch.random.fork_rng():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 3))
train(model, data, Training(epochs=20, optimizer="adam", lr=1e-2, batch_size=50), seed=0)
square = rs.Box(center=[0, 0], directions=[[1, 0], [0, 1]], radius=1)
coarse, fine = (rs.decision_map(model, square, undecided=share) for share in (0.05, 0.005))

figure, (left, right) = style.figure(1, 2, width=8, height=4.1)
plot.decision_map(coarse, ax=left, edges=True)
plot.decision_map(fine, ax=right)
style.map_axes([left, right], ticks=False)
figure.savefig("decision_map.png")
print(f"{fine.undecided:.2%} of the square is undecided, and it has {fine.n_regions} decision regions, proven.")
