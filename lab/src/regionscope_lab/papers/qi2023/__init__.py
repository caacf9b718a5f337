"""Qi & Wei 2023, The Evolution of the Interplay between Input Distributions and Linear Regions in Networks."""

from regionscope_lab.papers.qi2023.data import FIGURE1
from regionscope_lab.papers.qi2023.decay import DECAY
from regionscope_lab.papers.qi2023.epochs import TABLE2, TABLE3
from regionscope_lab.papers.qi2023.layers import FIGURE2
from regionscope_lab.papers.qi2023.lines import FIGURE3
from regionscope_lab.papers.qi2023.random_labels import TABLE1
from regionscope_lab.papers.qi2023.theorem1 import THEOREM1

__all__ = ["STUDIES"]

STUDIES = (FIGURE1, FIGURE2, FIGURE3, TABLE1, TABLE2, TABLE3, DECAY, THEOREM1)
