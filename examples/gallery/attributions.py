"""Exact attributions of a digit

Integrated gradients of the difference of two outputs, exact: the gradient of each linear piece on the way from a blank
image, times the length of the piece. Quadrature with a fixed number of steps only approaches them.
"""

import regionscope as rs
from regionscope.plot import style
from regionscope_lab.config import DataSpec
from regionscope_lab.data import load
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

split = load(DataSpec(name="digits", options={"flatten": True}))
model = mlp([64, 256, 256, 10], seed=0)
train(model, split, Training(epochs=30, optimizer="adam", lr=3e-3), seed=0)
image = split.train.inputs[split.train.labels == 8][:1]
found = rs.integrated_gradients(model, image, baseline=0.0, target=(8, 3))
steps = found.steps_needed(0.001, k_max=200)

figure, (left, middle, right) = style.figure(1, 3, width=9.6, height=3.2)
left.imshow(image.reshape(8, 8).numpy(), cmap="gray_r")
left.set_title("input")
heat = found.attributions[0].reshape(8, 8)
middle.imshow(heat.numpy(), cmap="RdBu_r", vmin=-heat.abs().max(), vmax=heat.abs().max())
middle.set_title("8 rather than 3")
for i, rule in enumerate(("gausslegendre", "riemann_middle", "riemann_trapezoid")):
    right.loglog(range(1, 201), steps.errors[rule][0].numpy(), color=style.hue(i), label=rule, linewidth=1)
right.set(xlabel="steps", ylabel="relative error")
right.legend(fontsize="x-small", frameon=False)
style.map_axes([left, middle], ticks=False)
style.plain_axes([right])
figure.savefig("attributions.png")
k = steps.steps["gausslegendre"][0]
print(f"The path has {int(found.pieces)} linear pieces; Gauss-Legendre needs {k} steps for an error below 0.1%.")
