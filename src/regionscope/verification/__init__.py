"""Properties of networks: ``read_vnnlib`` reads them, ``verify`` decides them on boxes with few free inputs.

- ``vnnlib``: a file as linear inequalities with exact numbers; ``property``: boxes and constraints.
- ``search``: cutting where the answer is open, with the bounds of ``exact.bounding``.
- ``decide``: the verdict, also from all linear regions, and what rounding the box changes.
"""

from regionscope.verification.decide import Verification, verify
from regionscope.verification.property import Case, Constraint, Property
from regionscope.verification.vnnlib import read_vnnlib

__all__ = ["Case", "Constraint", "Property", "Verification", "read_vnnlib", "verify"]
