"""The table of rules, one for each torch function that exact regions accept; importing this package fills it.

layers: convolution, BatchNorm, pooling... arithmetic: sums and products. shapes, indexing: moving entries about.
kinks: everything that folds.
"""

from regionscope.network.rules import arithmetic, indexing, kinks, layers, shapes

__all__ = ["arithmetic", "indexing", "kinks", "layers", "shapes"]
