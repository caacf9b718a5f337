"""Humayun et al. 2023, Deep Network Partition Density Exhibits Double Descent."""

from regionscope_lab.papers.humayun2023.deform import FIGURE18, FIGURE19
from regionscope_lab.papers.humayun2023.depth import FIGURE3, FIGURE13, GAP
from regionscope_lab.papers.humayun2023.exact import FIGURE14
from regionscope_lab.papers.humayun2023.grokking import FIGURE8
from regionscope_lab.papers.humayun2023.large_images import FIGURE12
from regionscope_lab.papers.humayun2023.layers import FIGURE15, FIGURE16
from regionscope_lab.papers.humayun2023.partition import FIGURE1, MIGRATION
from regionscope_lab.papers.humayun2023.regularisation import FIGURE4, FIGURE5, FIGURE7
from regionscope_lab.papers.humayun2023.shift import FIGURE17
from regionscope_lab.papers.humayun2023.width import FIGURE6, FIGURE10, FIGURE11
from regionscope_lab.papers.study import over_seeds

__all__ = ["STUDIES"]

STUDIES = tuple(
    over_seeds(study)
    for study in (
    FIGURE1, MIGRATION, FIGURE3, GAP, FIGURE4, FIGURE5, FIGURE6, FIGURE7, FIGURE8, FIGURE10, FIGURE11,
    FIGURE12, FIGURE13, FIGURE14, FIGURE15, FIGURE16, FIGURE17, FIGURE18, FIGURE19,
    )
)  # fmt: skip
