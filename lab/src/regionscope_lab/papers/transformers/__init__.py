"""Transformers: three questions that the papers leave open."""

from regionscope_lab.papers.transformers.correlation import NEXT_TOKEN, VISION
from regionscope_lab.papers.transformers.grokking import GROKKING

__all__ = ["STUDIES"]

STUDIES = (GROKKING, NEXT_TOKEN, VISION)
