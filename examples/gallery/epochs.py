"""Regions during training

Linear regions above, decision regions below, as in Figures 9 and 10 of Qi and Wei 2023; a region that persists keeps
its colour.
"""

import regionscope as rs
from regionscope import plot
from regionscope.monitor.tracking import follow
from regionscope.plot import style
from regionscope_lab.data import two_moons
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

square = rs.Box(center=[0, 0], directions=[[1, 0], [0, 1]], radius=1)
model = mlp([2, 16, 16, 16, 2], seed=1)
parts, decs = {0: rs.linear_regions(model, square)}, {0: rs.decision_regions(model, square)}


def look(row):
    if row.epoch in (1, 2, 5, 10, 20, 40):
        parts[row.epoch], decs[row.epoch] = rs.linear_regions(model, square), rs.decision_regions(model, square)


training = Training(epochs=40, optimizer="adam", lr=5e-3, batch_size=50)
train(model, two_moons(1000, noise=0.2, seed=0), training, seed=0, on_epoch=look)
ids = dict(zip(parts, follow(list(parts.values())), strict=True))

n = len(parts)
figure, axes = style.figure(2, n, width=1.55 * n, height=3.44)
for epoch, top, bottom in zip(parts, axes[:n], axes[n:], strict=True):
    plot.linear_regions(parts[epoch], ax=top, ids=ids[epoch])
    plot.decision_regions(decs[epoch], ax=bottom)
    top.set_title(f"epoch {epoch}\n{parts[epoch].n_linear_regions:,} regions", fontsize="small")
style.map_axes(axes, ticks=False)
figure.savefig("epochs.png")
print(f"From {parts[0].n_linear_regions} linear regions at the start to {parts[40].n_linear_regions} after 40 epochs.")
