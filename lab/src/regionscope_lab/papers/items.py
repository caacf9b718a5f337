"""Tables, figures and theorems of the papers: which pages are about each, and the grade of the largest run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regionscope_lab.papers.study import SIZES
from regionscope_lab.papers.verdict import Grade, Verdict, overall

_PLACES = re.compile(
    r"(Figure|Table|Theorem|Lemma|Corollary|Example|Section|Question)s? (\d[\d.]*(?:(?:, | and )\d[\d.]*)*)"
)

Pages = Mapping[str, Mapping[str, Any]]  # data.json by study


@dataclass(frozen=True)
class NotRun:
    """A part of an item that was not run, with the reason.

    found: pattern of the claims that show it was, or of ``size full`` for a part that is the largest size.
    """

    what: str
    reason: str
    found: str = ""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One table, figure or theorem.

    where: such as "Table 2"; a study belongs to it if its source names it. scale: the paper's data, networks and runs.
    claims: pattern of the claims that are about it, on pages of several items; None for a picture or data that the
    paper gives no claim for. not_run: what was left out. hypothesis: a setting that the paper does not state and that
    we test; such an item has its own grade and does not count among those of the paper.
    """

    where: str
    scale: str
    claims: str | None = ""
    not_run: tuple[NotRun, ...] = ()
    hypothesis: str = ""

    @property
    def name(self) -> str:
        """Where it stands, and the hypothesis if it is one."""
        return f"{self.where}, hypothesis: {self.hypothesis}" if self.hypothesis else self.where


@dataclass(frozen=True)
class Evidence:
    """The pages of the largest size that are about an item, and their claims as (study, claim).

    A claim that several pages show with the same numbers counts once.
    """

    size: str
    studies: tuple[str, ...]
    claims: tuple[tuple[str, Mapping[str, Any]], ...]

    @property
    def grade(self) -> Grade:
        """That of the weakest claim."""
        return overall([Verdict(Grade(claim["verdict"]["grade"]), "") for _, claim in self.claims])


def covered(source: str) -> set[str]:
    """The items that the source of a study names.

    >>> sorted(covered("Figures 2, 4 and 5, Table 8, for ResNet18; Lemma 6.4"))
    ['Figure 2', 'Figure 4', 'Figure 5', 'Lemma 6.4', 'Table 8']
    """
    return {
        f"{kind} {number.rstrip('.')}"
        for kind, numbers in _PLACES.findall(source)
        for number in re.findall(r"\d[\d.]*", numbers)
    }


def evidence(item: Item, paper: str, pages: Pages) -> Evidence | None:
    """What was found at the largest size at which the item was run; None if it never was."""
    claims_by_study = {}
    for study, page in pages.items():
        if page["paper"] == paper and item.where in covered(page["source"]):
            claims = [one for one in page["claims"] if item.claims is not None and re.search(item.claims, one["what"])]
            if claims or item.claims is None:
                claims_by_study[study] = claims
    if not claims_by_study:
        return None
    size = max((pages[study]["size"] for study in claims_by_study), key=SIZES.index)
    at_size = {study: claims for study, claims in claims_by_study.items() if pages[study]["size"] == size}
    once = {
        (one["what"], one["ours"], one["spread"]): (study, one) for study, claims in at_size.items() for one in claims
    }
    return Evidence(size, tuple(at_size), tuple(once.values()))
