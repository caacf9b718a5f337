"""All studies by name."""

from __future__ import annotations

from regionscope.errors import InputError
from regionscope.studies import humayun2023, li2025, qi2023, safran2022
from regionscope.studies.study import Study

__all__ = ["find", "studies"]


def studies() -> tuple[Study, ...]:
    """Every study, paper by paper, in the order of the papers."""
    return (*li2025.STUDIES, *humayun2023.STUDIES, *qi2023.STUDIES, *safran2022.STUDIES)


def find(name: str) -> tuple[Study, ...]:
    """The study of this name, those of a paper (``li2025``), or ``all``."""
    every = studies()
    found = tuple(study for study in every if name in ("all", study.name, study.paper))
    if not found:
        near = [study.name for study in every if name in study.name]
        raise InputError(
            f"There is no study {name!r}; {'perhaps ' + ', '.join(near[:5]) if near else 'list them with'}"
            f"{'.' if near else ': regionscope study list.'}"
        )
    return found
