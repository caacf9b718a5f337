"""The table of rules, one for each torch function that exact regions accept; importing this package fills it.

A new activation goes to ``activations`` (everything that folds: ReLU and similar functions, maxima, pooling), with
``@rule`` of ``network/record.py`` on top. The others: ``layers`` (linear, convolution, BatchNorm, average pooling),
``arithmetic`` (sums and products), ``shapes`` and ``indexing`` (moving entries). Helpers: ``windows`` (which entries a
pooling window holds) and ``convolution`` (a few rows at a time, or as a matrix product).
"""

from regionscope.network.rules import (
    activations,
    arithmetic,
    choices,
    curves,
    distances,
    indexing,
    layers,
    order,
    recurrent,
    scattering,
    shapes,
    spectra,
)

__all__ = [
    "activations", "arithmetic", "choices", "curves", "distances", "indexing", "layers", "order", "recurrent",
    "scattering", "shapes", "spectra",
]  # fmt: skip
