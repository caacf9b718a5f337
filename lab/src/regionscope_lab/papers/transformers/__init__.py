"""Transformers: three questions that the papers leave open."""

from regionscope.studies.transformers.correlation import NEXT_TOKEN, VISION
from regionscope.studies.transformers.grokking import GROKKING

__all__ = ["STUDIES"]

STUDIES = (GROKKING, NEXT_TOKEN, VISION)
