"""The numbers that Li et al. 2025 print, by table."""

from __future__ import annotations

from statistics import median

# Table 1.
LEARNING_RATES = (0.1, 0.01, 0.001)
VGG_RATES = (0.05, 0.01, 0.001)  # appendix A.1: VGG19 does not converge with 0.1
BATCH_SIZES = (256, 512, 1024)
WEIGHT_DECAYS = (1e-5, 1e-6, 1e-7)

POOLED = 0.93  # section 5 and Figure 4: over ResNet18, EfficientNetB0 and SENet18 together
NETWORKS = ("resnet18", "efficientnetb0", "senet18")  # Figures 4 and 5

_TABLE2_COLUMNS = ("cifar10", "cifar100", "imagenet", "regions_2d", "regions_3d", "regions_4d", "regions_5d")
_TABLE2 = {
    "resnet18": (0.98, 0.96, 0.91, 0.96, 0.97, 0.97, 0.96),
    "resnet34": (0.98, 0.98, 0.82, 0.98, 0.98, 0.98, 0.99),
    "vgg19": (0.94, 0.85, 0.78, 0.88, 0.86, 0.84, 0.86),
    "mobilenetv2": (0.95, 0.95, 0.92, 0.99, 0.99, 0.99, 0.99),
    "senet18": (0.98, 0.85, 0.80, 0.97, 0.97, 0.97, 0.93),
    "shufflenetv2": (0.95, 0.92, 0.92, 0.94, 0.95, 0.95, 0.93),
    "efficientnetb0": (0.98, 0.84, 0.93, 0.99, 0.99, 0.99, 0.98),
    "regnetx200mf": (0.98, 0.87, 0.97, 0.98, 0.99, 0.99, 0.98),
    "simpledla": (0.98, 0.94, 0.84, 0.99, 0.99, 0.98, 0.99),
}
ALL_NETWORKS = tuple(_TABLE2)
TABLE2 = {name: dict(zip(_TABLE2_COLUMNS, row, strict=True)) for name, row in _TABLE2.items()}

# Table 3: epoch of 200 -> mean region count, mean generalisation gap in percent, correlation.
EVOLUTION: dict[int, tuple[float, float | None, float | None]] = {
    0: (1.13, None, None),
    20: (3.14, 11.2, -0.53),
    40: (3.02, 7.3, -0.29),
    60: (3.10, 18.2, 0.35),
    80: (3.22, 26.7, 0.77),
    100: (3.25, 30.4, 0.98),
    130: (3.28, 31.2, 0.97),
    160: (3.27, 31.7, 0.98),
    200: (3.26, 31.6, 0.98),
}

# Table 4: points along each axis -> mean region count.
GRIDS_1D = {50: 2.74, 100: 2.76, 200: 2.78, 300: 2.78, 500: 2.78}
GRIDS_2D = {10: 2.76, 20: 2.76, 30: 2.78, 40: 2.78, 50: 2.78}

# Table 5: number of slices -> mean region count.
SAMPLES = {10: 2.24, 50: 2.56, 100: 2.78, 300: 2.80, 500: 2.79}

# Table 6: range of alpha -> mean region count, correlation.
RANGES = {(0, 1): (3.56, 0.98), (-1, 2): (4.47, 0.96), (-2, 3): (5.86, 0.92), (-3, 4): (6.39, 0.93)}

COUNTS_DIFFER = (
    "The paper's own base counts differ between its tables (2.78 in Table 4, 3.26 in Table 3, 3.56 in Table 6), so "
    "ratios, orders and correlations are compared, not counts."
)

# Table 7.
_TABLE7 = {
    "resnet18": (0.98, 0.92, 0.96),
    "resnet34": (0.98, 0.92, 0.91),
    "vgg19": (0.94, 0.92, 0.87),
    "mobilenetv2": (0.95, 0.95, 0.99),
    "senet18": (0.98, 0.78, 0.91),
    "shufflenetv2": (0.95, 0.83, 0.99),
    "efficientnetb0": (0.98, 0.97, 0.99),
    "regnetx200mf": (0.98, 0.95, 0.99),
    "simpledla": (0.98, 0.95, 0.88),
}
OPTIMISERS = {name: dict(zip(("sgd", "adam", "adagrad"), row, strict=True)) for name, row in _TABLE7.items()}

# Table 8, its columns as they are headed there.
_TABLE8 = {
    "resnet18": (0.98, 0.98, 0.98),
    "resnet34": (0.98, 0.96, 0.94),
    "vgg19": (0.94, 0.89, 0.78),
    "mobilenetv2": (0.95, 0.94, 0.88),
    "senet18": (0.98, 0.96, 0.99),
    "shufflenetv2": (0.95, 0.95, 0.92),
    "efficientnetb0": (0.98, 0.98, 0.92),
    "regnetx200mf": (0.98, 0.97, 0.92),
    "simpledla": (0.98, 0.97, 0.96),
}
METHODS = {
    name: dict(zip(("regions_test", "regions", "regions_random"), row, strict=True)) for name, row in _TABLE8.items()
}


def expected(table: dict[str, dict[str, float]], network: str, column: str) -> tuple[float, str]:
    """The number of ``network`` in a column, or for a network that the paper has not, the median of the nine; in words.

    >>> expected(TABLE2, "resnet18", "cifar100")
    (0.96, '0.96')
    >>> expected(TABLE2, "mlp", "regions_2d")
    (0.98, '0.98 (median of nine networks)')
    """
    if network in table:
        value = table[network][column]
        return value, f"{value:.2f}"
    value = median(row[column] for row in table.values())
    return value, f"{value:.2f} (median of nine networks)"
