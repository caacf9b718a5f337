"""Questions that the papers leave open, about networks like theirs."""

from regionscope_lab.papers.beyond.convnext import CONVNEXT
from regionscope_lab.papers.beyond.factors import FACTORIAL
from regionscope_lab.papers.beyond.optimiser import OPTIMISER
from regionscope_lab.papers.beyond.penalty import PENALTY

__all__ = ["STUDIES"]

STUDIES = (PENALTY, FACTORIAL, OPTIMISER, CONVNEXT)
