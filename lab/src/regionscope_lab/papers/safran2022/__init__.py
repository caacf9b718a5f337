"""Safran, Vardi & Lee 2022, On the Effective Number of Linear Regions in Shallow Univariate ReLU Networks."""

from regionscope_lab.papers.safran2022.end_to_end import LATE, THEOREM23
from regionscope_lab.papers.safran2022.example1 import EXAMPLE1
from regionscope_lab.papers.safran2022.generalisation import COROLLARY51
from regionscope_lab.papers.safran2022.regions import THEOREM42
from regionscope_lab.papers.safran2022.width import THEOREM32

__all__ = ["STUDIES"]

STUDIES = (THEOREM23, LATE, THEOREM32, EXAMPLE1, THEOREM42, COROLLARY51)
