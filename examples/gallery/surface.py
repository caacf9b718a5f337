"""The graph of a network

Over a plane, a ReLU network is a folded sheet: every linear region is a flat piece.
"""

import regionscope as rs
from regionscope import plot
from regionscope.plot import style
from regionscope_lab.data import two_moons
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

model = mlp([2, 16, 16, 1 + 1], seed=0)
train(model, two_moons(1000, noise=0.2, seed=0), Training(epochs=25, optimizer="adam", lr=5e-3, batch_size=50), seed=0)
square = rs.Box(center=[0, 0], directions=[[1, 0], [0, 1]], radius=1)
part = rs.linear_regions(model, square)
logit = part.outputs[:, 1] - part.outputs[:, 0]

figure, (ax,) = style.figure(1, 1, width=6, height=4.6, projection="3d")
plot.surface(part, ax=ax, heights=logit)
ax.set_zlabel("logit of class 1")
figure.savefig("surface.png", bbox_inches="tight")
print(f"The sheet has {part.n_linear_regions} flat pieces; it is above zero where class 1 is predicted.")
