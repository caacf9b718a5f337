"""Tables, figures and theorems of the paper, and why claims were not reproduced."""

from __future__ import annotations

from regionscope.studies.items import Item

_RANDOM = "[32, 32, 32] on 200 to 10,000 random points, 50,000 epochs"
_WIDTHS = "[16, 16, 16], [32, 32, 32] and [64, 64, 64]"
_TOYS = f"{_WIDTHS}, 1,000 points, 100 epochs"
_LINES = f"{_WIDTHS}, 100 epochs, mean of ten runs; lines from the origin, data not named"

ITEMS = (
    Item(where="Figure 1", scale="[64, 64, 64] on two moons, 100 epochs", claims="regions of"),
    Item(where="Figure 2", scale="three hidden layers of 8 neurons, 100 epochs"),
    Item(where="Theorem 1", scale="a proof", claims="^Theorem 1"),
    Item(where="Figure 3", scale=_LINES, claims="^(?!He |Theorem 1)"),
    Item(where="Figure 3", scale=_LINES, claims="^He initialisation", hypothesis="He initialisation"),
    Item(where="Table 1", scale=_RANDOM, claims="^(?!hypothesis)"),
    Item(where="Table 1", scale=_RANDOM, claims="^hypothesis", hypothesis="weight decay of 1e-4"),
    Item(where="Figure 4", scale=_RANDOM, claims="training accuracy"),
    Item(where="Figure 5", scale=_RANDOM, claims=None),
    Item(where="Figure 6", scale="two data sets of 1,000 points", claims="points, classes, range"),
    Item(where="Table 2", scale=f"two moons: {_TOYS}"),
    Item(where="Figure 7", scale=f"two moons: {_TOYS}", claims=None),
    Item(where="Table 3", scale=f"Gaussian quantiles: {_TOYS}"),
    Item(where="Figure 8", scale=f"Gaussian quantiles: {_TOYS}", claims=None),
    Item(where="Figure 9", scale=f"two moons: {_TOYS}", claims=None),
    Item(where="Figure 10", scale=f"Gaussian quantiles: {_TOYS}", claims=None),
)

# "Likely" marks a cause that no run has tested; the other sentences can be read off the committed pages.
CAUSES: dict[str, dict[str, str]] = {
    "qi2023-figure3": {
        "": "Disagreement, cause not known: He initialisation, which Theorem 1 assumes, raises the ratio to 0.17 to "
        "0.20 only (see the hypothesis), and the length of the lines (0.57 on average) explains a factor of 1.8 of "
        "about 6. The paper names neither the data nor the number of lines."
    },
    "qi2023-table1": {
        "": "Disagreement, cause not known: with Adam and no weight decay, as printed, the counts of many "
        "points do not fall; the paper's fall lies within the first 100 epochs, so that fewer epochs do not explain it."
    },
    "qi2023-table1-decay": {
        "as printed": "Disagreement: with Adam and no weight decay, as printed, the counts of many points do not fall. "
        "With a weight decay of 1e-4, which the paper does not state, they fall and come near to the paper's (see the "
        "hypothesis).",
        "hypothesis": "The paper names no weight decay, and 1e-4 is a guess; the page shows other decays beside it.",
    },
    "qi2023-theorem1": {
        "": "Likely: the constant of equation 27 depends on the density of the biases, which the paper does not state, "
        "and the paper sets it to 1.",
        "He initialisation": "Likely: the constant of equation 27, which is 0.25 in place of 1 on the same page, and "
        "the length of the lines, 0.57 on average.",
    },
}
