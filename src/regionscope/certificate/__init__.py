"""Certificates: partitions proved by error bounds and integers, independent of the engine that computed them.

- ``steps`` reads a program as explicit matrices and pieces. ``integers`` runs these steps exactly on a pattern,
  ``regions`` finds the true region of a pattern and its neighbours.
- ``rounding_bounds``, ``vertices`` and ``frames`` bound most signs in float64, from one forward pass of the vertices;
  ``unit_bounds`` bounds the others, region by region. ``corners`` proves regions from these bounds. ``bits`` holds
  patterns.
- ``claim`` is what a partition says, also beside its network. ``float_proof`` proves regions
  in floats, ``integer_proof`` compares the others with the true ones, ``certify`` puts both together
  and writes what ``tools/check_certificate.py`` checks. ``true_counts`` counts, ``result`` reports.
- ``integer_partition`` computes a whole partition in integers, where floats have not found the true one.
"""

from regionscope.certificate.certify import certify, doubts
from regionscope.certificate.integer_partition import TruePartition, true_partition
from regionscope.certificate.result import Certificate, Refutation

__all__ = ["Certificate", "Refutation", "TruePartition", "certify", "doubts", "true_partition"]
