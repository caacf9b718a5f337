"""Tables 4, 5 and 6 of Li et al. 2025 on a network trained on scikit-learn's digits in seconds.

python examples/region_tables.py
"""

from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits

import regionscope as rs
from regionscope_lab.data import Dataset
from regionscope_lab.train import Training, train
from regionscope_lab.zoo import mlp


def shown(found: rs.RegionCount) -> str:
    low, high = found.interval
    return f"{found.value:6.3f} ± {found.stderr:.3f}   [{low:.3f}, {high:.3f}]   {found.seconds:6.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    digits = load_digits()
    inputs, labels = torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target).long()
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(options.seed))
    train_set, test_set = ((inputs[rows], labels[rows]) for rows in (order[:1000], order[1000:]))
    net = mlp([64, 128, 128, 10], seed=options.seed)
    adam = Training(epochs=options.epochs, optimizer="adam", lr=1e-3, batch_size=32, schedule="constant")
    train(net, Dataset("digits", *train_set, 10), adam, seed=options.seed)
    gap = rs.measures.generalisation_gap(net, train_set, test_set)
    print(f"train error {gap.train_error.value:.3f}, test error {gap.test_error.value:.3f}, gap {gap.value:.3f}\n")
    data = train_set[0]

    print("Table 4: splitting numbers, 100 slices")
    for grid in (50, 100, 200, 300, 500):
        print(f"  {grid:>7}   {shown(rs.region_count(net, data, grid=grid))}")
    print(f"  {'exact':>7}   {shown(rs.region_count(net, data, method='exact'))}")
    for grid in (10, 20, 30, 40, 50):
        print(f"  {f'{grid}x{grid}':>7}   {shown(rs.region_count(net, data, dim=2, grid=grid))}")
    refined = rs.region_count(net, data, dim=2, method="refined")
    print(f"  {'refined':>7}   {shown(refined)}   bias of 30x30: {refined.grid_bias}")
    print(f"  {'exact':>7}   {shown(rs.region_count(net, data, dim=2, method='exact'))}\n")

    print("Table 5: number of slices, grid 200")
    for slices in (10, 50, 100, 300, 500):
        print(f"  {slices:>7}   {shown(rs.region_count(net, data, slices=slices))}")
    until = rs.region_count(net, data, until=0.02)
    print(f"  until 2%: {until.n} slices   {shown(until)}\n")

    print("Table 6: range of alpha, 500 slices, grid 200 and exact")
    for k in range(4):
        wide = rs.region_count(net, data, slices=500, alpha=(-k, 1 + k))
        exact = rs.region_count(net, data, slices=500, alpha=(-k, 1 + k), method="exact")
        print(f"  [{-k}, {1 + k}]   {shown(wide)}   exact {exact.value:.3f}")
    print("\nOther slices, 100 each")
    print(f"  test points      {shown(rs.region_count(net, test_set[0]))}")
    print(f"  random direction {shown(rs.region_count(net, data, through='direction'))}")
    for dim in (3, 4, 5):
        found = rs.region_count(net, data, dim=dim, slices=30, method="refined", max_points=15_000)
        print(f"  dim {dim}, refined   {shown(found)}   bias of grid {found.grid}: {found.grid_bias}")


if __name__ == "__main__":
    main()
