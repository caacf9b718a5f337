"""The studies of questions that the papers leave open, by name."""

from __future__ import annotations

from regionscope.errors import InputError
from regionscope_lab.papers import beyond, transformers
from regionscope_lab.papers.study import Study


def studies() -> tuple[Study, ...]:
    """Every study of a question that the papers leave open."""
    return (*transformers.STUDIES, *beyond.STUDIES)


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
