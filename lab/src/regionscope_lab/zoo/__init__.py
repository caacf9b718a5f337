"""Networks with seeded weights: ``build`` makes one by its name, ``names`` lists them, ``mlp`` takes widths.

One file for each family; what two families share stands in ``blocks``.
"""

from regionscope_lab.zoo.dense import mlp
from regionscope_lab.zoo.registry import build, check_options, names

__all__ = ["build", "check_options", "mlp", "names"]
