"""Grade stored pages again: by the rules as they are now, from the numbers that the claims recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from regionscope.studies.report import claim_data, claim_table, markdown_table, rules
from regionscope.studies.study import Claim
from regionscope.studies.verdict import judge, overall
from regionscope.writing import plain

_GRADE = re.compile(r"^(\*\*Verdict at size \w+: )[a-z ]+\.\*\*")

__all__ = ["regraded", "rewritten", "stored_claims"]


def stored_claims(page: Mapping[str, Any]) -> tuple[Claim, ...]:
    """The claims of a page (data.json), each judged again by its rule."""
    return tuple(
        Claim(
            one["what"], one["paper"], one["ours"], judge(one["verdict"]["by"], one["verdict"]["given"]), one["spread"]
        )
        for one in page["claims"]
    )


def regraded(page: Mapping[str, Any], claims: Sequence[Claim]) -> dict[str, Any]:
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
            *lines[:top], _GRADE.sub(lambda found: f"{found[1]}{grade}.**", lines[top], count=1), "",
            *markdown_table(*claim_table(claims)), *lines[below:start],
            "## Rules", "", *(f"- {rule}" for rule in rules(claims)), *lines[end:], "",
        ]
    )  # fmt: skip
