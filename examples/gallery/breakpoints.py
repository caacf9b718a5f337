"""A network on a line

Two of ten outputs on the way from one image to another: straight between the breakpoints, which are exact.
"""

import regionscope as rs
from regionscope import plot
from regionscope.plot import style
from regionscope_lab.config import DataSpec
from regionscope_lab.data import load
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

split = load(DataSpec(name="digits", options={"flatten": True}))
model = mlp([64, 24, 24, 10], seed=0)
train(model, split, Training(epochs=30, optimizer="adam", lr=3e-3), seed=0)
a, b = (split.train.inputs[split.train.labels == digit][0] for digit in (3, 8))
part, dec = rs.linear_regions(model, rs.Segment(a, b)), rs.decision_regions(model, rs.Segment(a, b))

figure, (ax,) = style.figure(1, 1, width=6.5, height=3.6)
drawn = plot.function_graph(part, ax=ax, outputs=[3, 8])
for at in dec.boundary.flatten().tolist():
    ax.axvline(at, color=style.GREY, linestyle=":", linewidth=1)
ax.set(xlabel="from a 3 (left) to an 8 (right)", ylabel="output")
ax.legend(fontsize="small", frameon=False)
style.plain_axes([ax])
figure.savefig("breakpoints.png")
print(
    f"From a 3 to an 8 a 64-[24,24]-10 network crosses {part.n_linear_regions} linear and {dec.count} decision regions."
)
