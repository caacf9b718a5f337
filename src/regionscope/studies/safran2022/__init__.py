"""Safran, Vardi & Lee 2022, On the Effective Number of Linear Regions in Shallow Univariate ReLU Networks."""

from regionscope.studies.safran2022.example1 import EXAMPLE1

__all__ = ["STUDIES"]

STUDIES = (EXAMPLE1,)
