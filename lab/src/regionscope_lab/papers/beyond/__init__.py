"""Questions that the papers leave open, about networks like theirs."""

from regionscope.studies.beyond.penalty import PENALTY

__all__ = ["STUDIES"]

STUDIES = (PENALTY,)
