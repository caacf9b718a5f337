"""Section 6.2: Lemmas 6.4 and 6.5 and Theorem 6.3, both sides computed while two-layer networks train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.rules import every_case
from regionscope_lab.papers.seed_table import SeedRun, SeedTable

LEMMAS = {"lemma64": "lemma_6_4", "lemma65": "lemma_6_5", "theorem63": "second"}


def section6(table: SeedTable, runs: Mapping[str, Sequence[SeedRun]]) -> Finding:
    rows = sorted(table.answers("li2025.theory.descend_with"), key=lambda one: (one["data"], one["rate"]))
    cases, failures = sum(one["checked"] for one in rows), sum(one["failures"] for one in rows)
    claims = {
        name: every_case(failures, cases, f"least slack {min(one['least_slack'][key] for one in rows):.1%}")
        for name, key in LEMMAS.items()
    }
    columns = (
        "data",
        "points",
        "rate",
        "rate x sharpness(0)",
        "regions",
        "low",
        "high",
        "rate x sharpness, late",
        "loss",
    )
    cells = tuple(
        (
            one["data"],
            one["n"],
            one["rate"],
            one["edge"],
            one["regions"],
            one["low"],
            one["high"],
            one["sharpness"],
            one["loss"],
        )
        for one in rows
    )
    return Finding(
        claims, (Table("Gradient descent of two-layer networks, 50 starts a rate", columns, cells, detail=True),)
    )
