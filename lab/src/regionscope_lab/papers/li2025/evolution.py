"""Table 3: counts, gaps and their correlation during training."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from regionscope_lab.papers.declaration import Finding, Table, printed
from regionscope_lab.papers.li2025.settings_table import graded
from regionscope_lab.papers.rules import Setting, by_seed, correlated, in_range, over_seeds
from regionscope_lab.papers.seed_table import Runs, SeedRun, SeedTable, by_setting


def table3(table: SeedTable, runs: Runs) -> Finding:
    mine, course = runs["resnet18"], printed("li2025", "table1", "table3")
    known = {share: row for share, *row in zip(*course.values(), strict=True)}  # count, gap, correlation
    count_at_end, gap_at_end, _ = known[1.0]
    seeds = by_setting(mine, "seed")
    moments = {share: [_moment(same, share) for same in seeds.values()] for share in known}
    settings = {share: _settings_at(mine, share) for share in known}
    found = {share: correlated(paper[2], settings[share], weak=paper[2] < 0.5) for share, paper in known.items()}
    start = [fmean(run.curve("regions_path").values[0] for run in same) for same in seeds.values()]
    last = moments[1.0]
    rows = tuple(
        (
            share,
            fmean(count for count, _ in moments[share]),
            paper[0],
            fmean(gap for _, gap in moments[share]),
            paper[1],
            found[share].ours,
            paper[2],
        )
        for share, paper in known.items()
    )
    return Finding(
        {
            "start": in_range(over_seeds(start), 1.0, 1.5),
            "rises": by_seed([1 if count > first else -1 for first, (count, _) in zip(start, last, strict=True)]),
            "early": found[0.2],
            "second-half": graded({f"at {share:g}": one for share, one in found.items() if share >= 0.5}),
            "level": in_range(over_seeds(count for count, _ in last), count_at_end * 0.95, count_at_end * 1.05),
            "gap": in_range(over_seeds(gap for _, gap in last), gap_at_end * 0.95, gap_at_end * 1.05, unit="%"),
        },
        (
            Table(
                "Along the training, by its share",
                ("share", "count", "the paper", "gap, %", "the paper ", "correlation", "the paper  "),
                rows,
            ),
        ),
    )


def _at(run: SeedRun, share: float) -> tuple[float, float]:
    """Count and gap in percent at a share of the training."""
    path, errors = run.curve("regions_path"), [run.curve(f"{part}_error") for part in ("train", "test")]
    step = share * path.steps[-1]
    train, test = (float(curve.values[curve.place(step)]) for curve in errors)
    return float(path.values[path.place(step)]), 100 * (test - train)


def _moment(runs: Sequence[SeedRun], share: float) -> tuple[float, float]:
    counts, gaps = zip(*(_at(run, share) for run in runs), strict=True)
    return fmean(counts), fmean(gaps)


def _settings_at(runs: Sequence[SeedRun], share: float) -> list[Setting]:
    """All settings at a share of the training, of which all fit their data at its end."""
    groups = by_setting(runs, "training.lr", "training.batch_size", "training.weight_decay")
    pairs = {key: list(zip(*(_at(run, share) for run in same), strict=True)) for key, same in groups.items()}
    return [Setting(x, y, key[:2]) for key, (x, y) in pairs.items()]
