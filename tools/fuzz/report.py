"""The report: which seeds were compared, how many networks of each kind, and where the counts differ."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import regionscope as rs
from fuzz import compare, smooth
from fuzz.compare import Outcome

Key = tuple[str, int, str, str]  # family, dimension, dtype, weights
COLUMNS = ("family", "dim", "dtype", "weights")


@dataclass(frozen=True)
class Record:
    """One network in the report. found: the differences as plain data, empty when all counts agree."""

    seed: int
    key: Key
    seconds: float
    found: list[dict[str, Any]]

    @staticmethod
    def of(outcome: Outcome) -> Record:
        net = outcome.network
        found = [
            {"what": d.what, "found": d.found, "expected": d.expected, "close": d.close} for d in outcome.differences
        ]
        return Record(net.seed, (net.family, net.dim, net.dtype, net.weights_kind), outcome.seconds, found)


def outcome(seed: int) -> Outcome:
    """Compare the network of a seed, of whatever family."""
    return smooth.outcome(seed) if seed >= smooth.SMOOTH else compare.outcome(seed)


def records_of(seeds: list[int]) -> list[Record]:
    """Compare the networks of these seeds."""
    return [Record.of(outcome(seed)) for seed in seeds]


@dataclass
class Report:
    """All results so far.

    seeds: (first, end, version) of each range; ranges do not overlap. networks, seconds: number and processor time of
        the networks of each kind. differing: networks whose counts differ, by seed. rechecked: version with which the
        networks that differed were last repeated.
    """

    seeds: list[tuple[int, int, str]] = field(default_factory=list)
    networks: Counter[Key] = field(default_factory=Counter)
    seconds: dict[Key, float] = field(default_factory=lambda: defaultdict(float))
    differing: dict[int, Record] = field(default_factory=dict)
    rechecked: str = ""

    def missing(self, first: int, end: int) -> list[int]:
        """The seeds of a range that are not in the report."""
        done = {seed for a, b, _ in self.seeds for seed in range(max(a, first), min(b, end))}
        return [seed for seed in range(first, end) if seed not in done]

    def add(self, records: list[Record], version: str) -> None:
        """Add networks that are not in the report yet."""
        for record in records:
            self.networks[record.key] += 1
            self.seconds[record.key] += record.seconds
            if record.found:
                self.differing[record.seed] = record
        ranges = sorted([*self.seeds, *((r.seed, r.seed + 1, version) for r in records)])
        self.seeds = ranges[:1]
        for first, end, by in ranges[1:]:
            if (self.seeds[-1][1], self.seeds[-1][2]) == (first, by):
                self.seeds[-1] = (self.seeds[-1][0], end, by)
            else:
                self.seeds.append((first, end, by))

    def replace(self, records: list[Record], version: str) -> None:
        """Take the new result of networks that differed."""
        self.rechecked = version
        for record in records:
            del self.differing[record.seed]
            if record.found:
                self.differing[record.seed] = record

    def lists(self) -> tuple[list[Record], list[Record]]:
        """Mismatches, and networks that differ only where rounding cannot be asked to decide."""
        ordered = [self.differing[seed] for seed in sorted(self.differing)]
        close = [record for record in ordered if all(each["close"] for each in record.found)]
        return [record for record in ordered if record not in close], close

    def table(self) -> str:
        """Networks, mismatches, undecided ones and milliseconds for each family and dtype.

        Of the undecided ones: results that warn, the undecided walls that they name, and results that are refused.
        """
        mismatches, close = ({r.seed: (r.key[0], r.key[2]) for r in records} for records in self.lists())
        columns = {"mismatches": Counter(mismatches.values()), "undecided": Counter(close.values())}
        columns |= {name: Counter() for name in ("warned", "walls", "refused")}
        for seed, kind in close.items():
            for difference in self.differing[seed].found:
                if difference["what"] in ("warned", "refused"):
                    columns[difference["what"]][kind] += 1
                if difference["what"] == "warned":
                    columns["walls"][kind] += difference["found"]
        networks: Counter[tuple[str, str]] = Counter()
        seconds: dict[tuple[str, str], float] = defaultdict(float)
        for key, n in self.networks.items():
            networks[key[0], key[2]] += n
            seconds[key[0], key[2]] += self.seconds[key]
        heads = "".join(f"{name:>12}" for name in ("networks", *columns, "ms"))
        lines = [f"{'family':12}{'dtype':10}{heads}"]
        for kind in sorted(networks):
            counts = "".join(f"{column[kind]:12}" for column in (networks, *columns.values()))
            lines.append(f"{kind[0]:12}{kind[1]:10}{counts}{1000 * seconds[kind] / networks[kind]:12.1f}")
        totals = "".join(f"{column.total():12}" for column in (networks, *columns.values()))
        lines.append(f"{'all':22}{totals}{1000 * sum(seconds.values()) / max(networks.total(), 1):12.1f}")
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        """Write the report as JSON with one line for each entry."""
        mismatches, close = self.lists()
        parts = {
            "seeds": [{"first": a, "end": b, "regionscope": version} for a, b, version in self.seeds],
            "networks": [
                {**dict(zip(COLUMNS, key, strict=True)), "networks": n, "seconds": round(self.seconds[key], 1)}
                for key, n in sorted(self.networks.items())
            ],
            "mismatches": [_plain(record) for record in mismatches],
            "undecided": [_plain(record) for record in close],
        }
        totals = {
            "n_networks": sum(self.networks.values()),
            "n_mismatches": len(mismatches),
            "n_undecided": len(close),
            "seconds": round(sum(self.seconds.values())),
            "rechecked": self.rechecked,
        }
        blocks = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in totals.items()]
        for name, rows in parts.items():
            inside = ",\n".join("  " + json.dumps(row) for row in rows)
            blocks.append(f" {json.dumps(name)}: [" + (f"\n{inside}\n ]" if rows else "]"))
        unfinished = path.with_name(path.name + ".part")
        unfinished.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")
        unfinished.replace(path)

    @staticmethod
    def load(path: Path) -> Report:
        """Read what ``save`` wrote; an empty report if there is no file."""
        if not path.exists():
            return Report()
        data, report = json.loads(path.read_text(encoding="utf-8")), Report()
        report.rechecked = data["rechecked"]
        report.seeds = [(row["first"], row["end"], row["regionscope"]) for row in data["seeds"]]
        for row in data["networks"]:
            key = _key(row)
            report.networks[key], report.seconds[key] = row["networks"], row["seconds"]
        for row in [*data["mismatches"], *data["undecided"]]:
            report.differing[row["seed"]] = Record(row["seed"], _key(row), 0.0, row["differences"])
        return report


def _key(row: dict[str, Any]) -> Key:
    return row["family"], row["dim"], row["dtype"], row["weights"]


def _plain(record: Record) -> dict[str, Any]:
    return {"seed": record.seed, **dict(zip(COLUMNS, record.key, strict=True)), "differences": record.found}


def version() -> str:
    """Version of regionscope, and the commit where there is one."""
    if shutil.which("git") is None:
        return rs.__version__
    here = Path(__file__).parent
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=here, capture_output=True, text=True, check=False
    )
    return f"{rs.__version__} {commit.stdout.strip()}".strip()
