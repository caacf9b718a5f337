"""Initial weights from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from regionscope.checks import is_integer
from regionscope.errors import InputError


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, torch's generator of the CPU starts from ``seed``; afterwards it goes on as if nothing had been drawn.

    The generators of GPUs are left alone: networks are built on the CPU.
    """
    if not (is_integer(seed, least=-(2**63)) and seed < 2**64):
        raise InputError(f"Expected seed to be a whole number of at most 64 bits, got {seed!r}. Choose 0, for example.")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
