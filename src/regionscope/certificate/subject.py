"""``Subject``: a partition to certify, beside the network that it should belong to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regionscope.certificate.bits import Bits
from regionscope.certificate.claim import ClaimedPartition
from regionscope.certificate.integers import IntegerNetwork
from regionscope.certificate.regions import TrueRegions
from regionscope.certificate.steps import Steps, read_steps

_MOST_VERTEX_ERROR = 1e-6  # of the extent of the slice: a stored vertex that is farther from the true one is refuted


@dataclass(frozen=True, eq=False)
class Subject:
    """A partition, what it claims, and its network as steps. most: largest number of regions to compute in integers."""

    part: Any
    most: int
    claim: ClaimedPartition
    steps: Steps
    code: Bits
    n_border: int

    @staticmethod
    def of(part: Any, most: int) -> Subject:
        """From a partition that carries its network."""
        steps, n_border = read_steps(part.program), len(part.slice.halfspaces[1])
        return Subject(part, most, ClaimedPartition.of(part), steps, Bits(steps, n_border), n_border)

    @property
    def n_rows(self) -> int:
        """Number of constraints of a region: the sides of the slice, and the units."""
        return self.n_border + self.steps.n_rows

    @cached_property
    def most_moved(self) -> float:
        """How far a stored vertex may be from the true one."""
        return _MOST_VERTEX_ERROR * float(np.ptp(self.claim.vertices, axis=0).max())

    @cached_property
    def network(self) -> IntegerNetwork:
        """The network in integers."""
        return IntegerNetwork(self.steps, self.part.slice)

    @cached_property
    def true(self) -> TrueRegions:
        """The true regions, each computed when it is asked for."""
        return TrueRegions(self.network)
