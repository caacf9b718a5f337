"""All studies by name, and the items of the papers that they are about."""

from __future__ import annotations

from regionscope.errors import InputError
from regionscope_lab.papers import beyond, humayun2023, li2025, papers, qi2023, safran2022, transformers
from regionscope_lab.papers.items import Item
from regionscope_lab.papers.study import PAPERS, Study

ITEMS: dict[str, tuple[Item, ...]] = {paper: papers.items(paper) for paper in PAPERS}
CAUSES = {study: said for paper in PAPERS for study, said in papers.causes(paper).items()}


def studies() -> tuple[Study, ...]:
    """Every study, paper by paper, in the order of the papers; then those beyond them."""
    of_papers = (*li2025.STUDIES, *humayun2023.STUDIES, *qi2023.STUDIES, *safran2022.STUDIES)
    return (*of_papers, *transformers.STUDIES, *beyond.STUDIES)


def cause(study: str, what: str) -> str:
    """Why a claim of a study was not reproduced, in one sentence or two; empty where none is written.

    Causes are by the start of the claim, the longest that fits; that of the empty start is for all others.
    """
    fitting = {start: said for start, said in CAUSES.get(study, {}).items() if what.startswith(start)}
    return fitting[max(fitting, key=len)] if fitting else ""


def find(name: str) -> tuple[Study, ...]:
    """The study of this name, those of a paper (``li2025``), or ``all``."""
    every = studies()
    found = tuple(study for study in every if name in ("all", study.name, study.paper))
    if not found:
        near = [study.name for study in every if name in study.name]
        guess = f"Did you mean {', '.join(near[:5])}? " if near else ""
        raise InputError(
            f"Expected the name of a study, got {name!r}. {guess}For all names, run: regionscope-lab paper list"
        )
    return found
