"""Decision regions between data points

Li et al. 2025 average the number of decision regions over random lines between training points; it works for any
classifier, and the mean comes with its error.
"""

import regionscope as rs
from regionscope import plot
from regionscope_lab.config import DataSpec
from regionscope_lab.data import load
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import build

split = load(DataSpec(name="digits", n_train=500))
model = build("mlp", depth=2, width=64, activation="gelu", classes=10, input_shape=(1, 8, 8), seed=0)
train(model, split, Training(epochs=60, optimizer="adam", lr=3e-3), seed=0)
found = rs.region_count(model, split.train.inputs, dim=1, slices=400)

plot.count_figure(found).savefig("counts.png")
print(
    f"A line between two digits crosses {found.value:.2f} ± {found.stderr:.2f} decision regions of this GELU network."
)
