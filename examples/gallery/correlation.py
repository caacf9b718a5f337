"""Region count and generalisation gap

Twelve small networks that differ in learning rate and label noise; each point is one run, as in Figure 4 of Li et al.
2025.
"""

import regionscope as rs
from regionscope.plot import style
from regionscope_lab.config import DataSpec
from regionscope_lab.correlation_figure import correlation_scatter
from regionscope_lab.data import load
from regionscope_lab.fit import linear_fit
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp

counts, gaps, groups = [], [], []
for noise in (0.0, 0.1, 0.2, 0.4):
    split = load(DataSpec(name="digits", n_train=200, label_noise=noise, options={"flatten": True}))
    for lr in (0.005, 0.01, 0.02):
        model = mlp([64, 64, 10], seed=0)
        settings = Training(epochs=80, optimizer="adam", lr=lr, batch_size=50, evaluate_every=80)
        last = train(model, split, settings, seed=0).history[-1]
        counts.append(rs.region_count(model, split.train.inputs, slices=100).value)
        gaps.append(last.test_error - last.train_error)
        groups.append(f"lr {lr}")

figure, (ax,) = style.figure(1, 1, width=4.4, height=3.6)
found = rs.measures.correlate(counts, gaps)
correlation_scatter(counts, gaps, ax=ax, groups=groups, fit=linear_fit(counts, gaps), found=found)
ax.set(xlabel="mean region count on a line", ylabel="test error − train error")
figure.savefig("correlation.png")
print(f"Over these twelve runs the correlation is {found.pearson} (95% bootstrap interval).")
