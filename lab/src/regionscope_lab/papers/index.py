"""The index of all results: one row for each table, figure and theorem of the papers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regionscope.formatting import counted
from regionscope_lab.papers.catalogue import ITEMS, cause
from regionscope_lab.papers.items import Evidence, Item, NotRun, Pages, evidence
from regionscope_lab.papers.report import markdown_table
from regionscope_lab.papers.study import PAPERS, Study
from regionscope_lab.papers.verdict import Grade

_NOT_RUN = "not run"
_NO_PAGE = NotRun("all", "there is a study, but no page of it yet")
_ROWS = ("Item", "Grade", "Claims", "Ours", "The paper", "Pages")
_INTRO = (
    "Each row is a table, a figure or a theorem. It is graded at the largest size that was run: `full` has the "
    "settings of the paper or comes near to them, as far as one GPU allows; `desk` is smaller and runs on two cores. "
    "A result is inconclusive where its interval covers both what the paper claims and no effect. A hypothesis is a "
    "setting that the paper does not state; it has its own grade and is not part of the totals. "
    "The last line of a page adds up the seconds of its runs, of which several share a device. A page that names no "
    "device was computed on the cores of a processor, in part or as a whole."
)
BESIDE = {
    "findings": "[Findings](findings.md) summarises the results on one page.",
    "checked_quotes": "[Checked quotes](checked_quotes.md) compares what we quote with the text of the papers.",
    "rules": "[Changes of the rules](rules.md) lists every change of a rule, with the grades before and after.",
}
"""Pages that people write, and the sentence that links to each."""


def index_markdown(
    studies: Sequence[Study], pages: Pages, *, items: Mapping[str, tuple[Item, ...]] = ITEMS, beside: Sequence[str] = ()
) -> str:
    """The index; ``pages`` holds data.json of the studies that have a page beside it.

    beside: names of the pages of ``BESIDE`` that exist.
    """
    smoke = [f"[{name}]({name}/report.md)" for name, page in pages.items() if page["size"] == "smoke"]
    links = "\n".join([*beside, *(f"{study.name}/report" for study in studies if study.name in pages)])
    pages = {name: page for name, page in pages.items() if page["size"] != "smoke"}
    lines = ["# Results", "", totals(pages, items=items), "", _INTRO, ""]
    lines += [line for name in beside for line in (BESIDE[name], "")]
    for paper, title in PAPERS.items():
        lines += [f"## {title}", "", *_paper(paper, items.get(paper, ()), {s.name: s for s in studies}, pages)]
    desk = [study for study in studies if pages.get(study.name, {}).get("size") == "desk"]
    lines += ["## Appendix: desk runs", "", *markdown_table(("Study", "Where", "Grade", "Claims"), map(_desk, desk,
              (pages[study.name] for study in desk))), ""]  # fmt: skip
    lines += [f"Smoke runs, which say nothing about the claims: {', '.join(smoke)}.", ""] if smoke else []
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", links, "```", ""])


def totals(pages: Pages, *, items: Mapping[str, tuple[Item, ...]] = ITEMS) -> str:
    """How many items and how many claims have each grade."""
    found = [evidence(item, paper, pages) for paper, mine in items.items() for item in mine if not item.hypothesis]
    grades = [_NOT_RUN if one is None else one.grade.value for one in found]
    full = sum(one is not None and one.size == "full" for one in found)
    claims = [claim["verdict"]["grade"] for one in found if one is not None for _, claim in one.claims]
    return (
        f"The four papers have {len(grades)} tables, figures and theorems: {tally(grades)}. {full} of them were run at "
        f"full size. An item has the grade of its weakest claim. Claims: {tally(claims)}."
    )


def tally(grades: Iterable[str]) -> str:
    """How often each grade was given, from the best on.

    >>> tally(["shown", "reproduced", "shown"])
    '1 reproduced, 2 shown'
    """
    found = Counter(grades)
    names = (*(grade.value for grade in Grade), _NOT_RUN)
    return ", ".join(f"{found[name]} {name}" for name in names if found[name])


def _paper(paper: str, items: Sequence[Item], studies: Mapping[str, Study], pages: Pages) -> list[str]:
    found = {item.name: evidence(item, paper, pages) for item in items}
    lines = [*markdown_table(_ROWS, [_row(item, found[item.name], studies, pages) for item in items]), ""]
    failed: dict[tuple[str, str], list[str]] = {}
    for name, one in found.items():
        for study, claim in one.claims if one is not None else ():
            if claim["verdict"]["grade"] == Grade.NOT_REPRODUCED.value:
                why = cause(study, claim["what"]) or "The cause is not known."
                failed.setdefault((name, why), []).append(claim["what"])
    missing: dict[tuple[str, str], list[str]] = {}
    for item in items:
        for cell in item.not_run or (() if found[item.name] else (_NO_PAGE,)):
            if not _was_run(cell, found[item.name]):
                missing.setdefault((item.name, cell.reason), []).append(cell.what)
    causes = [f"- {name}, {'; '.join(claims)}: {why}" for (name, why), claims in failed.items()]
    lines += ["**Not reproduced, and the cause**", "", *causes, ""] if causes else []
    left = [f"- {name}: {', '.join(cells)} ({why})." for (name, why), cells in missing.items()]
    return lines + (["**Not run**", "", *left, ""] if left else [])


def _was_run(cell: NotRun, found: Evidence | None) -> bool:
    texts = [f"size {found.size}", *(f"{one['what']} {one['paper']}" for _, one in found.claims)] if found else []
    return bool(cell.found) and any(re.search(cell.found, text) for text in texts)


def _row(item: Item, found: Evidence | None, studies: Mapping[str, Study], pages: Pages) -> tuple[str, ...]:
    if found is None:
        return item.name, _NOT_RUN, "", "", item.scale, ""
    grades = [claim["verdict"]["grade"] for _, claim in found.claims]
    ours = "; ".join(dict.fromkeys(_scale(studies[name], pages[name]) for name in found.studies if name in studies))
    links = ", ".join(f"[{name}]({name}/report.md)" for name in found.studies)
    return item.name, found.grade.value, tally(grades), f"{found.size}: {ours}", item.scale, links


def _scale(study: Study, page: Mapping[str, Any]) -> str:
    """Networks, data, length and seeds of the trainings; for a study without training, what it says itself."""
    config = page["config"]
    if not config:
        return study.scaled.get(page["size"], "") or "as in the paper"
    n = config.get("data.n_train", "all")
    seeds = counted(len(config["seed"].split(", ")), "seed")
    if seeds != "1 seed" and ", " in config["network.name"]:
        seeds = f"up to {seeds}"  # a network can have fewer than another
    width = f" (width {config['network.options.width']})" if "network.options.width" in config else ""
    return (
        f"{config['network.name']}{width}, {n.replace('None', 'all')} of {config['data.name']}, "
        f"{config['training.epochs']} epochs, {seeds}, {counted(page['runs'], 'run')}"
    )


def _desk(study: Study, page: Mapping[str, Any]) -> tuple[str, ...]:
    grades = tally(claim["verdict"]["grade"] for claim in page["claims"])
    return f"[{study.name}]({study.name}/report.md)", study.source, page["verdict"], grades
