"""Theorems and examples of the paper, and why claims were not reproduced."""

from __future__ import annotations

from regionscope.studies.items import Item

_PROOF = "a proof, no experiment"

ITEMS = (
    Item(where="Theorem 2.3", scale=_PROOF, claims="^Theorem 2.3"),
    Item(where="Theorem 3.1", scale=_PROOF, claims="^Theorem 3.1"),
    Item(where="Theorem 3.2", scale=_PROOF),
    Item(where="Example 1", scale="two data points, worked out by hand"),
    Item(where="Theorem 4.2", scale=_PROOF),
    Item(where="Corollary 5.1", scale=_PROOF),
)
CAUSES: dict[str, dict[str, str]] = {}
