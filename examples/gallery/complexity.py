"""Local complexity during training

How many neurons fold the neighbourhood of a point (Humayun et al. 2023), at training, test and random points, with
the accuracy in grey.
"""

import regionscope as rs
from regionscope import plot
from regionscope_lab.config import DataSpec
from regionscope_lab.data import load
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

split = load(DataSpec(name="digits", n_train=500, normalise=False, options={"flatten": True}))
model = mlp([64, 100, 100, 10], seed=0)
watch = rs.ComplexityWatch(
    rs.complexity.draw_points(split.train.inputs, split.test.inputs, n=300), dims=25, radius=0.05
)
watch(0, model)


def look(row):
    if row.epoch in (1, 2, 4, 7, 13, 25, 50, 100):
        watch(row.epoch, model, train_accuracy=1 - row.train_error, test_accuracy=1 - row.test_error)


train(model, split, Training(epochs=100, optimizer="adam", lr=1e-3, batch_size=50), seed=0, on_epoch=look)
figure = plot.complexity_figure(watch.history)
figure.axes[0].set_xlabel("epoch")
figure.savefig("complexity.png")
first, last = watch.history.means("train")[0], watch.history.means("train")[-1]
print(f"Mean local complexity at training points goes from {first:.2f} to {last:.2f} in 100 epochs.")
