"""Which pixels make a digit an 8

A network that learned handwritten digits, and the exact attributions of its output 8 minus its output 3 on one image.
Red pixels speak for the 8, blue ones for the 3. Pixels that are black, as in the baseline, have no attribution.
"""

import regionscope as rs
from regionscope.plot import style
from regionscope_lab.config import DataSpec
from regionscope_lab.data import load
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

split = load(DataSpec(name="digits", normalise=False, options={"flatten": True}))
model = mlp([64, 256, 256, 10], seed=0)
train(model, split, Training(epochs=30, optimizer="adam", lr=3e-3), seed=0)
image = split.test.inputs[split.test.labels == 8][:1]
found = rs.integrated_gradients(model, image, baseline=0.0, target=(8, 3))

heat = found.attributions[0].reshape(8, 8)
figure, (left, right) = style.figure(1, 2, width=7.2, height=3.4)
left.imshow(image.reshape(8, 8).numpy(), cmap="gray")
left.set_title("input")
drawn = right.imshow(heat.numpy(), cmap="RdBu_r", vmin=-heat.abs().max(), vmax=heat.abs().max())
right.set_title("output 8 minus output 3")
figure.colorbar(drawn, ax=right, label="attribution")
style.map_axes([left, right], ticks=False)
figure.savefig("attribution_figure.png")
total = float(found.attributions.sum())
print(
    f"From black to this image, output 8 minus output 3 changes by {total:+.1f}, on {int(found.pieces)} linear pieces."
)
