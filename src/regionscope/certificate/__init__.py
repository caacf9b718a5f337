"""Certificates: partitions proved by error bounds and integers, independent of the engine that computed them.

- ``steps`` reads a program as explicit matrices and pieces. ``integers`` runs these steps exactly on a pattern,
  ``polytopes`` and ``regions`` find the true region of a pattern and its neighbours.
- ``frames``, ``filter`` and ``corners`` prove most regions in float64 with bounds of all errors.
- ``claim`` is what a partition says, ``certify`` compares it with the truth, ``truth`` counts, ``result`` reports,
  ``document`` writes what ``tools/check_certificate.py`` checks.
"""

from regionscope.certificate.certify import certify
from regionscope.certificate.result import Certificate, Refutation

__all__ = ["Certificate", "Refutation", "certify"]
