"""The pages of the results: the headline claims of all papers, one page for each paper, and the log of verdicts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from regionscope_lab.papers.declaration import BEYOND, PAPERS, Claim, Finding, Item, Paper, Size, all_items, read_paper
from regionscope_lab.papers.rules import Graded, Verdict, combined, rules_markdown
from regionscope_lab.papers.seed_table import SeedTable

Findings = Mapping[str, Finding]  # by the full name of an item
_EXPONENT_FROM = 1e15  # floats from here on are written with an exponent
_HEADLINES = ("Claim", "The paper", "Ours [95%]", "Verdict", "Fidelity", "Why")
_ABSTRACT = ("The abstract says", "Verdict", "Ours")
_CLAIMS = ("Claim", "The paper", "Ours [95%]", "Verdict", "Rule", "Why")
_LOG = ("Item", "Before", "Now", "Rules that decide")


def graded(table: SeedTable) -> dict[str, Finding]:
    """Every item of the papers and beyond them, graded from stored runs."""
    return {item.full_name: item.find(table) for item in all_items()}


def pages(found: Findings) -> dict[str, str]:
    """All pages by their path below docs/."""
    papers = [read_paper(name) for name in PAPERS]
    every = [*papers, read_paper(BEYOND)]
    return {
        "papers.md": _summary(papers, found),
        **{f"papers/{paper.name}.md": _paper_page(paper, found) for paper in every},
        "results/changes.md": _log(every, found),
    }


def item_page(item: Item, finding: Finding, size: Size) -> str:
    """The report of one item; below size full, its verdicts are about the smaller setting."""
    lines = [f"# {item.full_name}", ""]
    if size != "full":
        lines += [f"Size {size}: the verdicts are about this shortened setting, not about the paper.", ""]
    lines += item_lines(item, finding, details=True)
    for i, figure in enumerate(finding.figures, 1):
        lines += [f"![{figure.title}]({item.full_name}-{i}.png)", ""]
    return "\n".join(lines)


def tally(verdicts: Iterable[Verdict]) -> str:
    """How often each verdict was given.

    >>> tally([Verdict.HOLDS, Verdict.NOT_TESTED, Verdict.HOLDS])
    '2 hold, 1 not tested'
    """
    words = {
        Verdict.HOLDS: "hold",
        Verdict.PARTLY: "hold partly",
        Verdict.CONTRADICTED: "contradicted",
        Verdict.UNDECIDED: "undecided",
        Verdict.NOT_TESTED: "not tested",
    }
    counts = Counter(verdicts)
    return ", ".join(f"{counts[verdict]} {word}" for verdict, word in words.items() if counts[verdict])


def _summary(papers: Sequence[Paper], found: Findings) -> str:
    lines = [
        "# Results of the papers",
        "",
        "What four papers say, graded from our own runs by [rules](#how-claims-are-graded) that were fixed before this "
        "grading; the runs had been graded once by other rules (`docs/results/changes.md`). First the sentences of the "
        "abstract, with the claims for each and our number for the first; where a claim is not tested, a "
        "sentence holds partly at most. Then the headline claims that our runs contradict. The papers' pages have all "
        "claims, and what we shorten or replace. [Findings](findings.md) has what the papers do not say.",
        "",
    ]
    for paper in papers:
        items = {item.name: item for item in paper.items}
        chosen = [_claim(items, name) for name in paper.headlines]
        verdicts = [_verdict(found, item, claim) for item, claim in chosen]
        against = [
            (f"{item.where.split(',')[0]}: {claim.says}", *_numbers(found, item, claim)[:2])
            for (item, claim), verdict in zip(chosen, verdicts, strict=True)
            if verdict is Verdict.CONTRADICTED
        ]
        lines += [f"## {paper.title}", "", f"**Verdict.** {paper.sentence}", ""]
        lines += [*markdown_table(_ABSTRACT, _abstract(paper, items, found)), ""]
        lines += [f"**Weakest evidence.** {paper.weakest}", "", f"**What would change it.** {paper.change}", ""]
        lines += [f"[Headline claims](papers/{paper.name}.md): {tally(verdicts)}.", ""]
        if against:
            lines += [*markdown_table(("Contradicted", "The paper", "Ours [95%]"), against), ""]
    return "\n".join([*lines, *rules_markdown()])


def _abstract(paper: Paper, items: Mapping[str, Item], found: Findings) -> list[tuple[str, str, str]]:
    """Each sentence with the verdict that those of its claims give together, and our number for the first of them."""
    rows = []
    for sentence in paper.abstract:
        verdicts = [_verdict(found, *_claim(items, name)) for name in sentence.claims]
        numbers = [(name, _numbers(found, *_claim(items, name))[1]) for name in sentence.shown]
        words = [ours if sentence.claims[:1] == sentence.shown else f"{name}: {ours}" for name, ours in numbers]
        why = [sentence.why] if sentence.why else []
        rows.append((sentence.says, _sentence_verdict(sentence.claims, verdicts), ". ".join(why + words)))
    return rows


def _sentence_verdict(names: Sequence[str], verdicts: Sequence[Verdict]) -> str:
    """The verdict of its claims together, and their names by verdict; partly at most where a claim is not tested."""
    whole = combined([Graded(verdict, "combined", "") for verdict in verdicts]).verdict
    if whole is Verdict.HOLDS and Verdict.NOT_TESTED in verdicts:
        whole = Verdict.PARTLY
    parts = list[str]()
    for kind in dict.fromkeys(verdicts):  # in the order of the claims
        these = ", ".join(name for name, verdict in zip(names, verdicts, strict=True) if verdict is kind)
        parts.append(these if kind is whole and not parts else f"{kind.value}: {these}")
    return whole.value + (f" ({'; '.join(parts)})" if parts else "")


def _headlines(paper: Paper, found: Findings) -> list[str]:
    """The table of the headline claims, in the paper's order."""
    items = {item.name: item for item in paper.items}
    rows = [
        (f"{item.where}: {claim.says}", *_numbers(found, item, claim), claim.fidelity, claim.why)
        for item, claim in (_claim(items, name) for name in paper.headlines)
    ]
    return ["## Headline claims", "", *markdown_table(_HEADLINES, rows), ""] if rows else []


def _claim(items: Mapping[str, Item], name: str) -> tuple[Item, Claim]:
    item = items[name.split(".")[0]]
    return item, next(claim for claim in item.claims if claim.name == name.split(".", 1)[1])


def _verdict(found: Findings, item: Item, claim: Claim) -> Verdict:
    graded_claim = found[item.full_name].claims.get(claim.name)
    return Verdict.NOT_TESTED if graded_claim is None else graded_claim.verdict


def _numbers(found: Findings, item: Item, claim: Claim) -> tuple[str, str, str]:
    """The paper's number, ours, and the verdict."""
    graded_claim = found[item.full_name].claims.get(claim.name)
    ours = "" if graded_claim is None else graded_claim.ours
    return claim.paper, ours, _verdict(found, item, claim).value


def _paper_page(paper: Paper, found: Findings) -> str:
    verdicts = [_verdict(found, item, claim) for item in paper.items for claim in item.claims]
    lines = [
        f"# {paper.title}",
        "",
        f"{len(verdicts)} claims: {tally(verdicts)}. The verdicts follow the "
        "[rules](../papers.md#how-claims-are-graded). The name below each heading is that of the item: "
        "`regionscope-lab paper run NAME --size full` makes its runs.",
        "",
        *_headlines(paper, found),
    ]
    for item in paper.items:
        lines += item_lines(item, found[item.full_name])
    return "\n".join(lines)


def item_lines(item: Item, finding: Finding, *, details: bool = False) -> list[str]:
    """The claims and the tables of an item. details: whether with those of each seed."""
    mine = {item.full_name: finding}
    rows = [(claim.says, *_numbers(mine, item, claim), _rule(finding, claim), claim.why) for claim in item.claims]
    first = item.claims[0]
    words = f"`{item.full_name}`. Fidelity {first.fidelity}{f': {first.short}' if first.short else ''}."
    lines = [f"## {item.where}", "", words, "", *([item.note, ""] if item.note else [])]
    lines += [*markdown_table(_CLAIMS, rows), ""]
    for table in finding.tables:
        if details or not table.detail:
            lines += [f"### {table.title}", "", *markdown_table(table.columns, table.rows), ""]
    return lines


def _rule(finding: Finding, claim: Claim) -> str:
    return finding.claims[claim.name].rule.replace("_", " ") if claim.name in finding.claims else ""


def _log(papers: Sequence[Paper], found: Findings) -> str:
    """The grades of each item before and after the rules of ``rules.py``, and the later changes of readings."""
    lines = [
        "# Log of the verdicts",
        "",
        "Until these rules, an item had the grade of its weakest claim, and curves were averaged over seeds. The",
        "stored runs are the same before and after. The runs of Table 3 and Figure 2 of Qi & Wei, and the flows of",
        "Theorem 4.2 and Corollary 5.1, were not stored; they were computed again, with the same numbers.",
        "",
        "Below a table: what changed later, when each claim was read again beside the text of the paper. There, the",
        "reading of the claim changed, and no run. One rule is new, for sentences of abstracts: where a claim that",
        "stands for one is not tested, the sentence holds partly at most.",
        "",
    ]
    for paper in papers:
        rows = []
        for item in paper.items:
            finding = found[item.full_name]
            verdicts = [_verdict(found, item, claim) for claim in item.claims]
            rules = dict.fromkeys(rule for claim in item.claims if (rule := _rule(finding, claim)))
            rows.append((item.where, item.before or "not graded", tally(verdicts), ", ".join(rules)))
        lines += [f"## {paper.title}", "", *markdown_table(_LOG, rows), ""]
        lines += [*(f"- {change}" for change in paper.regraded), ""] if paper.regraded else []
    return "\n".join(lines)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """The lines of a table."""
    lines = ["| " + " | ".join(map(_cell, columns)) + " |", "|" + " --- |" * len(columns)]
    return lines + ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]


def _cell(value: Any) -> str:
    return _number(value).replace("|", "\\|").replace("\n", " ")


def _number(value: Any) -> str:
    """Four digits and no exponent from 0.0001 on, whole numbers with commas from 1,000 on; n/a where there is none."""
    if value is None or (isinstance(value, Real) and math.isnan(value)):
        return "n/a"
    if isinstance(value, bool | str) or not isinstance(value, Real):
        return str(value)
    if isinstance(value, Integral):
        return f"{int(value):,}"
    short = f"{float(value):.4g}"
    return f"{float(value):,.0f}" if 1000 <= abs(float(short)) < _EXPONENT_FROM else short
