"""The result of ``certify``: a verdict with its evidence, which another program can check."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from regionscope.errors import InputError
from regionscope.file_io import check_parent, replace_file
from regionscope.types import Reading


@dataclass(frozen=True)
class Refutation:
    """Where a partition is wrong: the reason, the regions concerned, and the stored and the true number of regions.

    ``regions`` is empty if only a count is wrong.
    """

    reason: str
    regions: tuple[int, ...]
    claimed: int
    true: int

    def __str__(self) -> str:
        where = f" (regions {', '.join(map(str, self.regions[:8]))}{', ...' if len(self.regions) > 8 else ''})"
        return f"{self.reason}{where if self.regions else ''}: {self.claimed} claimed, {self.true} true"


@dataclass(frozen=True, eq=False)
class Certificate:
    """Whether a partition is the true one.

    certified: whether all signs are decided and the partition is the true one. refuted: where it is wrong.
    counts: true numbers of regions: "by_layer", "activation", "linear", and "decision" where labels are cut.
    signs: number of signs, one for each constraint and corner. recomputed: number of signs decided in integer
        arithmetic. unproved: number of undecided signs.
    document: function that returns the data for an independent checker, ready for JSON; None unless the partition is
        certified.
    nearest_tie: smallest distance of a corner to the zero set of another unit, in slice coordinates, among the units
        that are below 2^-9 of their largest value at a corner of the region. vertex_error: largest distance of a
        stored vertex from the true one, as far as floats bound it. reason: why integer arithmetic left signs undecided;
        empty if there were too many of them.
    """

    certified: bool
    refuted: tuple[Refutation, ...]
    counts: dict[str, Any]
    signs: int
    recomputed: int
    unproved: int
    nearest_tie: float
    vertex_error: float
    seconds: float
    reason: str = ""
    document: Callable[[], dict[str, Any]] | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return self.certified

    @property
    def n_open(self) -> int:
        """Number of undecided signs, or of refuted regions; a wrong count is one."""
        return self.unproved or sum(max(1, len(refutation.regions)) for refutation in self.refuted)

    def __repr__(self) -> str:
        found = {name: self.counts[name] for name in ("activation", "linear", "decision") if name in self.counts}
        counts = "".join(f", {name}={n}" for name, n in found.items())
        return f"Certificate(certified={self.certified}, refuted={len(self.refuted)}, unproved={self.unproved}{counts})"

    def __str__(self) -> str:
        if self.certified:
            decision = f", {self.counts['decision']} decision" if "decision" in self.counts else ""
            return (
                f"certified: {self.counts['activation']} activation regions, {self.counts['linear']} linear{decision} "
                f"({self.recomputed} of {self.signs} signs in integers)"
            )
        if self.unproved:
            return f"not certified: {self.unproved} signs left" + (f". {self.reason}" if self.reason else "")
        return "refuted: " + "; ".join(map(str, self.refuted))

    def readings(self) -> tuple[Reading, ...]:
        """Whether it is certified (1 or 0), and the numbers of signs decided in integers and undecided."""
        return ("", int(self.certified), None), ("recomputed", self.recomputed, None), ("unproved", self.unproved, None)

    def summary(self) -> dict[str, Any]:
        """Everything but the document, ready for JSON; ``nearest_tie`` is None if floats measured no distance."""
        numbers = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "document"}
        nearest = self.nearest_tie if math.isfinite(self.nearest_tie) else None
        return numbers | {"nearest_tie": nearest, "refuted": [asdict(one) for one in self.refuted]}

    def save(self, path: str | Path) -> Path:
        """Write the document as JSON for ``tools/check_certificate.py``. Only a certified partition has a document."""
        if self.document is None:
            raise InputError(f"Expected a certified partition, got '{self}'. Call save() only where certified is True.")
        target = Path(path)
        check_parent(target)
        text = json.dumps(self.document(), separators=(",", ":")) + "\n"
        replace_file(target, lambda temporary: temporary.write_text(text, encoding="utf-8"))
        return target
