"""Section 6.2: Lemmas 6.4 and 6.5 and Theorem 6.3, both sides computed while two-layer networks train."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from regionscope_lab.papers.declaration import Finding, Table
from regionscope_lab.papers.rules import Graded, Verdict, every_case
from regionscope_lab.papers.seed_table import Runs, SeedTable

LEMMAS = {"lemma64": "lemma_6_4", "lemma65": "lemma_6_5", "theorem63": "second"}


def section6(table: SeedTable, runs: Runs) -> Finding:
    rows = sorted(table.answers("li2025.theory.descend_with"), key=lambda one: (one["data"], one["rate"]))
    cases, failures = sum(one["checked"] for one in rows), sum(one["failures"] for one in rows)
    claims = {
        name: every_case(
            failures, cases, f"{1 - min(one['least_slack'][key] for one in rows):.1%} of the bound at most"
        )
        for name, key in LEMMAS.items()
    }
    shown = {
        "data": "data", "n": "points", "rate": "rate", "edge": "rate x sharpness(0)", "regions": "regions",
        "low": "low", "high": "high", "sharpness": "rate x sharpness, late", "loss": "loss",
    }  # fmt: skip
    cells = tuple(tuple(one[name] for name in shown) for one in rows)
    descents = Table(
        "Gradient descent of two-layer networks, 50 starts a rate", tuple(shown.values()), cells, detail=True
    )
    more, lines = _on_lines(table.answers("li2025.theory.on_a_line"))
    return Finding({**claims, **more}, (descents, lines))


def _on_lines(answers: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Graded], Table]:
    """Claims on N points of a line with alternating labels. A share is that of the bound of Theorem 6.3, but its 2."""

    def share(one: Mapping[str, Any]) -> float:
        return float((one["regions"] - 2) * one["radius"] ** 2 / (2 * one["n"] * one["sharpness"]))

    def over(one: Mapping[str, Any]) -> bool:
        return bool(one["regions"] > 2 + 8 * math.log2(one["n"]) * one["sharpness"] / one["radius"] ** 2)

    built = sorted((one for one in answers if one["seed"] is None), key=lambda one: int(one["n"]))
    trained = [one for one in answers if one["seed"] is not None]
    groups = [("alternates", [one]) for one in built]
    groups += [("trained", [one for one in trained if one["n"] == n]) for n in sorted({one["n"] for one in trained})]
    numbers = ("n", "accuracy", "regions", "sharpness")
    rows: tuple[tuple[str | float, ...], ...] = tuple(
        (name, *(fmean(one[key] for one in same) for key in numbers), fmean(map(share, same))) for name, same in groups
    )
    columns = ("network", "points", "labels right", "mean count", "sharpness", "share of the bound")
    line = every_case(sum(map(over, answers)), len(answers))
    words = "mean count at most 2 + 8 log2(N) sharpness / r², argued and checked"
    against = Verdict.CONTRADICTED if line.verdict is Verdict.HOLDS else Verdict.UNDECIDED
    claims = {
        "tight": replace(line, verdict=against, ours=f"{words}: {line.ours}"),
        "line": line,
    }
    title = "N points on a line with alternating labels; trained: means over five starts"
    return claims, Table(title, columns, rows)
