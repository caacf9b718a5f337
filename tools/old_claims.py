"""Numbers of claims that were stored as text, read back for the rules of ``regionscope.studies.verdict``.

``read`` takes a page (data.json) of before the rules recorded their numbers, and returns its claims with verdicts. Most
numbers have three digits and most errors one, as printed; where a chart or table of the page holds more, that is used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from regionscope.measures.correlate import Coefficient
from regionscope.studies import verdict
from regionscope.studies.humayun2023.claims import larger, ordered, steep
from regionscope.studies.humayun2023.deform import calmer
from regionscope.studies.humayun2023.shape import BEYOND
from regionscope.studies.li2025 import paper as li
from regionscope.studies.study import Claim
from regionscope.studies.verdict import Grade, Verdict

__all__ = ["read"]

_NUMBER = r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?"
_FALLING = ("less", "earlier", "remove", "distinct in shallow", "falls")
_KKT = 0.01  # as in safran2022/regions.py
_SEEDS = {"qi2023-table1": 3, "qi2023-table2": 10, "qi2023-table3": 10}

Page = Mapping[str, Any]
Entry = Mapping[str, Any]  # a claim of data.json


def read(page: Page) -> tuple[Claim, ...]:
    """All claims of an old page, judged again."""
    return tuple(one for entry in page["claims"] for one in _claims(page, entry))


def _claims(page: Page, entry: Entry) -> tuple[Claim, ...]:
    what, study = entry["what"], page["study"]
    if what.startswith("largest change of average"):
        kind = "eccentricity" if "eccentricity" in what else "diameter"
        return calmer(kind, _courses(page, kind))
    if what.startswith("flows whose direction converged"):
        residual = _numbers(entry["ours"])[-1]
        return (
            Claim("flows whose direction converged", "all converge in direction", "40 of 40", verdict.holds(0, 40)),
            Claim("largest KKT residual of these flows, relative to the norm of the weights",
                  "0 in the limit (the direction is a KKT point)", f"{residual:.3f}",
                  verdict.small(residual, limit=_KKT)),
        )  # fmt: skip
    judged = Claim(what, entry["paper"], entry["ours"], _verdict(page, entry), entry["spread"])
    if what.startswith("largest rise of train LC") and study.endswith(("figure3", "figure15")):
        return _read_twice(page, judged)
    return (judged,)


def _read_twice(page: Page, height: Claim) -> tuple[Claim, ...]:
    """Sharpness as height and as steepness, with the steps of valley and peak from the table of the page."""
    paper = "less sharp with depth" if page["study"].endswith("figure3") else "sharper in shallow layers"
    first = Claim(height.what, f"{paper}; sharpness read as height", height.ours, height.verdict, height.spread)
    what = height.what.replace("largest rise of train LC", "largest rise of train LC for each power of ten of steps")
    if page["study"].endswith("figure3"):
        what = height.what.replace("largest rise", "largest rise for each power of ten of steps")
    title = height.what.replace("largest rise of train LC", "LC at train points")
    table = next(table for table in page["tables"] if table["title"].startswith(title))
    steps = {row[0]: [_steps(row[i]) for i in (2, 3)] for row in table["rows"]}
    names, values = _named(height.ours)
    if page["study"].endswith("figure3"):
        errors = _numbers(height.spread)
        found = {n: steep((v, e), *steps[n]) for n, v, e in zip(names, values, errors, strict=True)}
        claim = ordered(what, f"{paper}; sharpness read as steepness", list(range(len(names), 0, -1)), found)
        return first, claim
    lacking = [name for name in names if None in steps[name]]
    if lacking:
        said = f"not known for {', '.join(lacking)}: the page does not say where its largest rise begins and ends"
        return first, Claim(what, f"{paper}; sharpness read as steepness", said, verdict.differs(0, 0, math.nan))
    (error,) = _numbers(height.spread)
    sides = [(n, steep((v, error / math.sqrt(2)), *steps[n])) for n, v in zip(names, values, strict=True)]
    return first, larger(what, f"{paper}; sharpness read as steepness", *sides)


def _steps(cell: str) -> int | None:
    found = re.search(r"\(step ([\d,]+)\)", cell)
    return int(found[1].replace(",", "")) if found else None


def _courses(page: Page, kind: str) -> dict[float, list[tuple[float, float]]]:
    chart = next(chart for chart in page["charts"] if chart["title"].startswith("Figure") and kind in chart["title"])
    return {
        float(line["label"].removeprefix("r = ")): list(zip(line["y"], line["spread"], strict=True))
        for line in chart["series"]
    }


def _numbers(text: str) -> list[float]:
    return [float(one.replace(",", "")) for one in re.findall(_NUMBER, text.replace(", ", " ; "))]


def _named(text: str) -> tuple[list[str], list[float]]:
    """Of "name: value, other: value"."""
    found = re.findall(rf"(?:^|, )([^:]+): ({_NUMBER})(?=,|$)", text)
    return [name for name, _ in found], [float(value.replace(",", "")) for _, value in found]


def _verdict(page: Page, entry: Entry) -> Verdict:
    rule, old = entry["verdict"]["rule"], entry["verdict"]["grade"]
    if old == "shown" or entry["what"].endswith("for each doubling of the rate"):
        return verdict.shown()
    if "no ascent" in entry["ours"] and not rule.startswith("reproduced: descent"):
        return verdict.absent(beyond=BEYOND)
    judged = next(reader for start, reader in _READERS.items() if rule.startswith(f"reproduced: {start}"))(page, entry)
    if judged.by == "differs" and not math.isnan(judged.given["error"]):
        clear = judged.grade is Grade.REPRODUCED
        assert clear == (old == "reproduced"), f"{page['study']}, {entry['what']}: {judged}"
    return judged


def _phases(page: Page, entry: Entry) -> Verdict:
    """Which phases are clear; errors have one digit, so that the stored grade says how many."""
    parts = [part.split(" ± ") for part in entry["spread"].split(", ")]
    shares = [float(part[0]) / float(part[1]) if len(part) == 2 else 0.0 for part in parts]
    n = {"reproduced": 3, "same trend": 2}.get(entry["verdict"]["grade"], sum(share > BEYOND for share in shares))
    best = sorted(range(3), key=lambda i: -shares[i])[:n]
    return verdict.phases([i in best for i in range(3)], beyond=BEYOND)


def _differs(page: Page, entry: Entry) -> Verdict:
    what, ours, spread = entry["what"], entry["ours"], entry["spread"]
    if " / " in ours:  # grokking: steps to generalise and to memorise
        late, early = _numbers(ours)[:2]
        return verdict.differs(late / early, 2.0, 0.0)
    if what.startswith("success at width"):
        (high, low), ends = _numbers(ours), _numbers(spread)[1:]
        errors = [(ends[i + 1] - ends[i]) / (2 * 1.96) for i in (0, 2)]
        return verdict.differs(high, low, math.hypot(*errors))
    if page["paper"] == "li2025":
        if what.startswith("region count, start and end"):
            (start, end), errors = _numbers(ours), _numbers(spread)
            return verdict.differs(end, start, math.hypot(*errors))
        value, error = _numbers(ours)[0], _numbers(spread)[0]
        return verdict.differs(-value if what.endswith("region count") else value, 0.0, error)
    _, (high, low) = _named(ours)
    return verdict.differs(high, low, _numbers(spread)[0])


def _ordering(page: Page, entry: Entry) -> Verdict:
    what, ours, study = entry["what"], entry["ours"], page["study"]
    if study.startswith("qi2023"):
        return _qi_ordering(page, entry)
    if what.startswith("course of"):
        return _li_course(page, entry)
    if what.startswith("mean count by range"):
        values = _numbers(ours)
        return verdict.ordering(_numbers(entry["paper"]), values, [_numbers(entry["spread"])[0]] * len(values))
    if study.startswith("li2025"):
        values, errors = [float(v) for v in re.findall(r"([\d.]+) \(", ours)], _numbers(entry["spread"])
    elif ":" in ours:
        values, errors = _named(ours)[1], _numbers(entry["spread"])
    else:
        values, errors = _numbers(ours), _numbers(entry["spread"])
    ranks = list(range(len(values)))
    falls = entry["paper"].startswith(_FALLING) or "remove" in entry["paper"]
    return verdict.ordering(ranks[::-1] if falls else ranks, values, errors)


def _qi_ordering(page: Page, entry: Entry) -> Verdict:
    """The page gives standard deviations over seeds, and in the rule twice the paired one that all epochs share."""
    paper, values = _numbers(entry["paper"]), _numbers(entry["ours"].split(";")[0])
    spread, root = _numbers(entry["spread"]), math.sqrt(_SEEDS[page["study"]])
    found = re.search(r"differ by more than ([\d,.]+) there", entry["verdict"]["rule"])
    noise = float(found[1].replace(",", "")) if found else 0.0
    paired = "pairs compared" in entry["ours"]
    errors = [noise / 2 / root] * len(values) if paired else [one / root for one in spread]
    return verdict.ordering(paper, values, errors, noise=noise)


def _li_course(page: Page, entry: Entry) -> Verdict:
    gap = "gap" in entry["what"]
    title = "Gap while training" if gap else "Correlation of region count and gap while training"
    line = next(chart for chart in page["charts"] if chart["title"] == title)["series"][0]
    last, column = max(li.EVOLUTION), 1 if gap else 2
    known = {epoch / last: row[column] for epoch, row in li.EVOLUTION.items() if row[column] is not None}
    shares = [x / line["x"][-1] for x in line["x"]]
    kept = [i for i, share in enumerate(shares) if share >= min(known) and line["y"][i] is not None]
    theirs = np.interp([shares[i] for i in kept], list(known), list(known.values())).tolist()
    errors = line["spread"] if gap else [(high - low) / 2 for low, high in line["interval"]]
    return verdict.ordering(theirs, [line["y"][i] for i in kept], [errors[i] for i in kept])


def _coefficient(entry: Entry) -> Coefficient:
    if entry["ours"] == "not defined":
        return Coefficient(math.nan, (math.nan, math.nan), 0)
    low, high = map(float, re.findall(r"[-+]\d\.\d+", entry["spread"])[:2])
    settings = re.search(r"(\d+) settings", entry["spread"])
    return Coefficient(float(entry["ours"]), (low, high), int(settings[1]) if settings else 0)


def _correlation(page: Page, entry: Entry) -> Verdict:
    paper = re.search(r"paper's ([-+][\d.]+) or", entry["verdict"]["rule"])
    assert paper is not None
    judged = verdict.correlation(float(paper[1]), ours := _coefficient(entry))
    if (judged.grade, entry["verdict"]["grade"]) == (Grade.REPRODUCED, "same trend"):  # two digits round it up
        weaker = replace(ours, value=ours.value - math.copysign(0.005, ours.value))
        return verdict.correlation(float(paper[1]), weaker)
    return judged


def _holds(page: Page, entry: Entry) -> Verdict:
    what, ours = entry["what"], entry["ours"]
    if what.startswith("second descent in the first stage"):
        found = [(".branch." in name, said.strip() == "yes") for name, said in (p.split(":") for p in ours.split(", "))]
        return verdict.holds(sum(a != b for a, b in found), len(found))
    kept = re.search(r"(\d+) of (\d+)", ours) or re.search(r"(?:over|up to) (\d+) (?:flows|checks)", entry["spread"])
    cases = int(kept[kept.lastindex or 1]) if kept else 3 if what.endswith("direction of the flow") else 1
    return verdict.holds(0 if entry["verdict"]["grade"] == "reproduced" else 1, cases)


def _agrees(page: Page, entry: Entry) -> Verdict:
    share = re.search(r"within ([\d.]+)% of", entry["verdict"]["rule"])
    assert share is not None
    within, ours, paper = float(share[1]) / 100, _numbers(entry["ours"]), _numbers(entry["paper"])
    if entry["what"].endswith("beyond the noise"):
        return verdict.counted(2, int(ours[0]))
    if "of at most" in entry["ours"]:
        return verdict.agrees(1.0, ours[0] / ours[1], within=within)
    if "the farthest is judged" in entry["spread"]:
        ours = sorted(_numbers(entry["spread"])[:2], key=lambda one: -abs(one - paper[0]))
    return verdict.agrees(paper[0], ours[-1 if "=" in entry["ours"] else 0], within=within)


def _near(page: Page, entry: Entry) -> Verdict:
    factor, paper = re.findall(r"[\d.]+", entry["verdict"]["rule"])[:2]
    return verdict.near(float(paper), abs(_numbers(entry["ours"])[0]), factor=float(factor))


def _ratio(entry: Entry) -> tuple[float, list[float]]:
    ours = re.search(rf"a factor of ({_NUMBER})", entry["ours"])
    return float(ours[1]) if ours else _numbers(entry["ours"])[0], _numbers(entry["spread"].split("[")[1])


def _grows(page: Page, entry: Entry) -> Verdict:
    return verdict.grows(_numbers(entry["paper"])[-1], *_ratio(entry))


_READERS: dict[str, Callable[[Page, Entry], Verdict]] = {
    "descent, ascent": _phases,
    "larger by": _differs,
    "no pair": _ordering,
    "within 0.1 of the paper's": _correlation,
    "no failure": _holds,
    "the whole interval between": lambda page, entry: verdict.uncorrelated(_coefficient(entry)),
    "within a factor": _near,
    "within": _agrees,
    "the ratio is": _grows,
    "the 95% interval of the mean": lambda page, entry: verdict.positive(_ratio(entry)[1]),
    "the whole 95%": lambda page, entry: verdict.stays(_ratio(entry)[1]),
}
