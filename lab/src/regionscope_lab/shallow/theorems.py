"""What Theorems 2.3, 3.1, 3.2 and 4.2 of Safran, Vardi and Lee 2022 ask for and promise, as numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from regionscope.checks import check_positive, read_integer, read_number, unknown_name
from regionscope.errors import InputError

_UNION = {"2.3": 12, "3.1": 6}  # factor of k / delta inside the logarithm of the bound on sigma_o


@dataclass(frozen=True)
class Requirements:
    """What a theorem asks of a run, and what the run has.

    n, k, sigma_h: at least; sigma_o: at most. n is None where the theorem does not ask for a sample size. sigma_h is
    evaluated at the n and k of the run, sigma_o at its k and at the sigma_h of the run (the required one if the
    run gives none). holds: for each quantity that the run gave, whether it is met.
    """

    theorem: str
    n: float | None
    k: float
    sigma_h: float
    sigma_o: float
    holds: dict[str, bool]


def theorem_2_3(
    r: int, rho: float, R: float, C: float, *, k: int, n: int, eps: float, delta: float, C0: float = 1.0,
    sigma_h: float | None = None, sigma_o: float | None = None,
) -> Requirements:  # fmt: skip
    """Learnability: with probability 1 - delta, zero loss, at most 32 r + 67 regions, and test error <= eps.

    C0 is a universal constant; the paper gives no value for it. R below 1 is replaced by 1 (footnote 2).
    """
    check_positive(r=r, rho=rho, C=C, k=k, n=n, R=R, C0=C0)
    _check_share(eps=eps, delta=delta)
    R = max(R, 1.0)
    need_n = C0 * (r * math.log(1 / eps) + math.log(2 / delta)) / eps
    need_k = 6144 * R**4 * math.log(48 * r / delta) / rho
    need_h = 8400 * n**2 * C * R**3.5 * math.sqrt(r * k) / (delta * rho)
    most_o = largest_sigma_o(k, sigma_h=need_h if sigma_h is None else sigma_h, R=R, delta=delta)
    need = Requirements("2.3", need_n, need_k, need_h, most_o, {})
    return _judged(need, k=k, n=n, sigma_h=sigma_h, sigma_o=sigma_o)


def theorem_3_1(
    r: int, rho: float, R: float, C: float, *, k: int, n: int, delta: float,
    sigma_h: float | None = None, sigma_o: float | None = None,
) -> Requirements:  # fmt: skip
    """Optimisation: with probability 1 - delta the flow reaches a loss of at most 1 / (2n)."""
    check_positive(r=r, rho=rho, C=C, k=k, n=n, R=R)
    _check_share(delta=delta)
    R = max(R, 1.0)
    need_k = 6144 * R**4 * math.log(24 * r / delta) / rho
    need_h = 4200 * n**2 * C * R**3.5 * math.sqrt(r * k) / (delta * rho)
    most_o = largest_sigma_o(k, theorem="3.1", sigma_h=need_h if sigma_h is None else sigma_h, R=R, delta=delta)
    need = Requirements("3.1", None, need_k, need_h, most_o, {})
    return _judged(need, k=k, n=n, sigma_h=sigma_h, sigma_o=sigma_o)


def largest_sigma_o(k: int, *, theorem: str = "2.3", sigma_h: float = 1.0, R: float = 1.0, delta: float = 0.1) -> float:
    """1 / (4 k R sigma_h log(c k / delta)): the largest deviation of the output weights that Theorem 2.3 (c = 12) or
    3.1 (c = 6) allows for k units. R below 1 is replaced by 1 (footnote 2).

    >>> largest_sigma_o(100, theorem="3.1") * 400 == 1 / math.log(6000)
    True
    """
    if theorem not in tuple(_UNION):
        raise unknown_name("a theorem", theorem, _UNION)
    check_positive(k=k, sigma_h=sigma_h, R=R)
    _check_share(delta=delta)
    return 1 / (4 * k * max(R, 1.0) * sigma_h * math.log(_UNION[theorem] * k / delta))


def region_bound(r: int) -> int:
    """Largest number of linear regions in the limit of the flow (Theorem 4.2) for a teacher of width r: 32 r + 67.

    >>> region_bound(3)
    163
    """
    return 32 * read_integer("r", r) + 67


def _judged(need: Requirements, **run: float | None) -> Requirements:
    """Whether the numbers of a run, those that are known, are as large as they need to be (sigma_o: as small)."""
    given = {n: read_number(n, value) for n, value in run.items() if value is not None and getattr(need, n) is not None}
    holds = {n: v <= need.sigma_o if n == "sigma_o" else v >= getattr(need, n) for n, v in given.items()}
    return replace(need, holds=holds)


def _check_share(**values: float) -> None:
    for name, value in values.items():
        if not 0 < read_number(name, value) < 1:
            raise InputError(f"Expected 0 < {name} < 1, got {value}. Choose 0.1, for example.")
