"""Linear and decision regions in one picture

The hue is the predicted class, the shade the linear region; the black line is the exact decision boundary.
"""

import regionscope as rs
from regionscope import plot
from regionscope.plot import style
from regionscope_lab.data import gaussian_quantiles
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

data = gaussian_quantiles(1000, classes=5, seed=0)
model = mlp([2, 32, 32, 5], seed=0)
train(model, data, Training(epochs=30, optimizer="adam", lr=1e-2, batch_size=50), seed=0)
square = rs.Box(center=[0, 0], directions=[[1, 0], [0, 1]], radius=1)
dec = rs.decision_regions(model, square)

figure, (left, right) = style.figure(1, 2, width=8, height=4.1)
plot.decision_mosaic(dec, ax=left)
plot.decision_regions(dec, ax=right)
plot.data(data.inputs, data.labels, ax=right)
style.map_axes([left, right], ticks=False)
figure.savefig("mosaic.png")
print(f"After 30 epochs on five rings, {len(dec.partition):,} pieces make {dec.count} decision regions.")
