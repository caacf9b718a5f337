"""Proof of a partition: it covers the slice, its maps are the network, and its pieces fit together."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import torch

from regionscope.errors import CheckFailed
from regionscope.geometry.ragged import owners
from regionscope.network import full_precision, patterns
from regionscope.tolerance import COVER, FLAT, TINY, Tolerance

if TYPE_CHECKING:
    from regionscope.exact.partition import Partition

__all__ = ["check_partition"]

_ROWS = 4096


def check_partition(part: Partition) -> None:
    """Raise CheckFailed with the reason unless the partition proves itself.

    Coverage: every region has positive size and the sizes add up to that of the slice. Continuity: the map of every
    region meets the shared values at all its corners. Truth: map and network agree at every interior point.
    Activation: no two regions show the same pattern there (regions thinner than rounding excepted). Cost: one forward
        pass over the regions.
    """
    if not part.status:
        raise CheckFailed(f"The partition is not finished: {part.status.reason}.")
    _check_coverage(part)
    _check_maps(part)
    if part.program is not None:
        _check_network(part)


def _check_coverage(part: Partition) -> None:
    total, whole = float(part.sizes.sum()), part.slice.size
    if abs(total - whole) > COVER * whole:
        raise CheckFailed(f"The sizes of the {len(part)} regions add up to {total}, but the slice has {whole}.")
    if bool((part.sizes < -FLAT * whole).any()):
        raise CheckFailed(f"{int((part.sizes < 0).sum())} regions are turned inside out (negative size).")


def _check_maps(part: Partition) -> None:
    maps, of = part.maps, owners(part.offsets)
    at_corner = maps.constant[of] + (part.vertices[part.corners][:, None] @ maps.slope[of])[:, 0]
    gap = (at_corner - part.outputs[part.corners].double()).abs().amax(1)
    accuracy = Tolerance.of(part.outputs.dtype).slope
    allowed = accuracy * maps.size + part.stats.rounding + 16 * maps.noise[of] * maps.extent
    if bool((gap > allowed).any()):
        worst = int((gap - allowed).argmax())
        raise CheckFailed(
            f"Region {int(of[worst])} is not affine: its map misses the value at a corner by {float(gap[worst]):.3g}."
        )


def _check_network(part: Partition) -> None:
    program = part.program
    assert program is not None
    maps = part.maps
    accuracy = Tolerance.of(program.dtype).slope
    thin = maps.noise * maps.extent > accuracy * max(maps.size, TINY)
    seen: dict[bytes, int] = {}
    with torch.no_grad(), full_precision():
        for start in range(0, len(part), _ROWS):
            rows = slice(start, start + _ROWS)
            coords = part.interior[rows]
            inputs = part.slice.embed(coords, dtype=program.dtype)
            expected = maps.constant[rows] + (coords[:, None] @ maps.slope[rows])[:, 0]
            gap = (program(inputs).to(expected) - expected).abs().amax(1)
            allowed = accuracy * maps.size + part.stats.rounding + 16 * maps.noise[rows] * maps.extent
            if bool((gap > allowed).any()):
                worst = int((gap - allowed).argmax())
                raise CheckFailed(
                    f"Region {start + worst}: map and network differ by {float(gap[worst]):.3g} at its interior point."
                )
            for i, row in enumerate(patterns(program, inputs).cpu().numpy()):
                key = blake2b(row.tobytes(), digest_size=16).digest()
                if key in seen and not (thin[start + i] or thin[seen[key]]):
                    raise CheckFailed(f"Regions {seen[key]} and {start + i} have the same activation pattern.")
                seen.setdefault(key, start + i)
