"""Grade the committed results again: ``PYTHONPATH=src python tools/regrade_results.py``.

Rewrites data.json, report.md and the index under docs/results, and the totals in README.md.
Every claim is graded from the numbers that it recorded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regionscope.file_io import plain
from regionscope_lab.papers.catalogue import studies
from regionscope_lab.papers.index import BESIDE, index_markdown, totals
from regionscope_lab.papers.report import claim_data, claim_table, markdown_table, rules
from regionscope_lab.papers.study import Claim, Study, one_seed_claims
from regionscope_lab.papers.verdict import judge, overall
from regionscope_lab.store.files import read_document, write_bytes, write_document

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
TOTALS = re.compile(r"The four papers have \d+ tables, figures and theorems: [^\n]*")

GRADE = re.compile(r"^(\*\*Verdict at size \w+: )[a-z ]+\.\*\*")

Page = Mapping[str, Any]


def stored_claims(page: Page) -> tuple[Claim, ...]:
    """The claims of a page (data.json), each judged again by its rule."""
    return tuple(
        Claim(
            one["what"], one["paper"], one["ours"], judge(one["verdict"]["by"], one["verdict"]["given"]), one["spread"]
        )
        for one in page["claims"]
    )


def regraded(page: Page, claims: Sequence[Claim]) -> dict[str, Any]:
    """The page (data.json) with these claims in place of its own."""
    grade = overall([claim.verdict for claim in claims]).value
    found: dict[str, Any] = plain({**page, "verdict": grade, "claims": [claim_data(claim) for claim in claims]})
    return found


def rewritten(text: str, claims: Sequence[Claim]) -> str:
    """The page (report.md) with these claims: its grade, its table of claims and its rules are replaced."""
    grade = overall([claim.verdict for claim in claims]).value
    lines = text.splitlines()
    top = next(i for i, line in enumerate(lines) if line.startswith("**Verdict at size"))
    table = next(i for i in range(top, len(lines)) if lines[i].startswith("|"))
    below = next(i for i in range(table, len(lines)) if not lines[i].startswith("|"))
    start = lines.index("## Rules")
    end = next(i for i in range(start + 2, len(lines)) if not lines[i].startswith("- "))
    return "\n".join(
        [
            *lines[:top], GRADE.sub(lambda found: f"{found[1]}{grade}.**", lines[top], count=1), "",
            *markdown_table(*claim_table(claims)), *lines[below:start],
            "## Rules", "", *(f"- {rule}" for rule in rules(claims)), *lines[end:], "",
        ]
    )  # fmt: skip


def claims_of(study: Study, page: Page) -> tuple[Claim, ...]:
    """The claims of a page, judged by the rules as they are."""
    claims = stored_claims(page)
    alone = study.seeded and page["config"].get("seed", "").count(",") == 0
    return one_seed_claims(claims) if alone and page["config"] else claims


def main() -> None:
    every = studies()
    pages: dict[str, Page] = {}
    for study in every:
        home = RESULTS / study.name
        if not (home / "data.json").exists():
            continue
        page = read_document(home / "data.json") or {}
        claims = claims_of(study, page)
        text = rewritten((home / "report.md").read_text(), claims)
        pages[study.name] = regraded(page, claims)
        write_bytes(home / "report.md", text.encode())
        write_document(home / "data.json", pages[study.name])
    write_bytes(RESULTS / "index.md", index_markdown(every, pages, beside=tuple(BESIDE)).encode())
    readme = (ROOT / "README.md").read_text()
    write_bytes(ROOT / "README.md", TOTALS.sub(lambda _: totals(pages), readme).encode())


if __name__ == "__main__":
    main()
