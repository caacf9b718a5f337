"""Grade the committed results again: ``PYTHONPATH=src python tools/regrade_results.py``.

Rewrites data.json, report.md and the index under docs/results, the tables of rules.md and the totals in README.md.
Every claim is graded from the numbers that it recorded.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regionscope.lab.store.files import read_document, write_bytes, write_document
from regionscope.studies.catalogue import studies
from regionscope.studies.index import BESIDE, index_markdown, tally, totals
from regionscope.studies.report import claim_data, claim_table, markdown_table, rules
from regionscope.studies.study import Claim, Study, one_seed_claims
from regionscope.studies.verdict import judge, overall
from regionscope.writing import plain

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
BEFORE = "115aba6"  # the last commit with the old rules
TABLES = "<!-- the tables below are written by tools/regrade_results.py -->"
TOTALS = re.compile(r"The four papers have \d+ tables, figures and theorems: .*? at full size\.", re.DOTALL)

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


def before(name: str) -> Page | None:
    """The page as it was under the old rules; None if there was none."""
    shown = subprocess.run(
        ["git", "show", f"{BEFORE}:docs/results/{name}/data.json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(shown.stdout) if shown.returncode == 0 else None


def same_runs(old: Page, new: Page) -> bool:
    """Whether two pages are of the same runs, so that a grade differs by the rule only."""
    return all(old[name] == new[name] for name in ("size", "provenance", "runs", "seconds"))


def changed(old: Page, new: Page) -> list[tuple[str, str, str, str]]:
    """Claim, ours, grade before and after, for all that differ."""

    def key(claim: Mapping[str, Any]) -> tuple[str, str]:
        return claim["what"], claim["paper"].split(";")[0].replace("less sharp", "less").strip()

    known = {key(claim): claim["verdict"]["grade"] for claim in old["claims"]}
    rows = []
    for claim in new["claims"]:
        was, now = known.pop(key(claim), "not there"), claim["verdict"]["grade"]
        if was != now:
            rows.append((claim["what"], f"{claim['ours']} ({claim['spread']})".replace(" ()", ""), was, now))
    return rows + [(what, "", was, "replaced") for (what, _), was in known.items()]


def tables(old: Mapping[str, Page], new: Mapping[str, Page]) -> list[str]:
    """Totals before and after, and every grade that changed, study by study."""
    every = [tally(claim["verdict"]["grade"] for page in pages.values() for claim in page["claims"])
             for pages in (old, new)]  # fmt: skip
    lines = ["## Grades before and after", "", f"Claims before: {every[0]}.", "", f"Claims after: {every[1]}.", ""]
    for name, page in new.items():
        if rows := changed(old[name], page):
            lines += [f"### {name}", "", f"Grade of the page: {old[name]['verdict']}, now {page['verdict']}.", ""]
            lines += [*markdown_table(("Claim", "Ours", "Before", "After"), rows), ""]
    return lines


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
    old = {name: was for name in pages if (was := before(name)) is not None and same_runs(was, pages[name])}
    changes = RESULTS / "rules.md"
    top = changes.read_text().split(TABLES)[0]
    judged = {name: pages[name] for name in old}
    write_bytes(changes, "\n".join([f"{top}{TABLES}", "", *tables(old, judged)]).encode())
    write_bytes(RESULTS / "index.md", index_markdown(every, pages, beside=tuple(BESIDE)).encode())
    readme = (ROOT / "README.md").read_text()
    write_bytes(ROOT / "README.md", TOTALS.sub(lambda _: totals(pages), readme).encode())


if __name__ == "__main__":
    main()
