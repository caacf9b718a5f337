"""The index of the results: one row for each item, at the largest size, and what the committed pages say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from regionscope_lab.papers import catalogue, verdict
from regionscope_lab.papers.catalogue import cause, studies
from regionscope_lab.papers.charts import Bars, Lines, Scatter, Series
from regionscope_lab.papers.index import BESIDE, index_markdown, totals
from regionscope_lab.papers.items import Item, NotRun, covered, evidence
from regionscope_lab.papers.report import claim_data
from regionscope_lab.papers.study import Claim, Outcome, Size, Study, one_seed_claims, over_seeds
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.store.files import read_document
from regrade_results import regraded, rewritten, stored_claims

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "docs" / "results"


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    return Outcome(claims=(Claim("a", "", "", verdict.differs(2.0, 1.0, 0.1)), Claim("b", "", "", verdict.holds(0, 1))))


def study(name: str, source: str) -> Study:
    return Study(name=name, source=source, claim="", analyse=_analyse, scaled={"desk": "Half."})


def page(source: str, size: str, **grades: str) -> dict[str, Any]:
    return {
        "paper": "qi2023", "source": source, "size": size, "config": {}, "verdict": "shown",
        "claims": [{"what": what, "paper": "", "ours": "1", "spread": "", "verdict": {"grade": grade}}
                   for what, grade in grades.items()],
    }  # fmt: skip


PAGES: Mapping[str, dict[str, Any]] = {
    "small": page("Figures 1 and 2", "desk", wide="not reproduced", deep="reproduced"),
    "large": page("Figure 1, on a GPU", "full", wide="same trend"),
}
ITEMS = {
    "qi2023": (
        Item(where="Figure 1", scale="one | run", claims="wide"),
        Item(where="Figure 2", scale="two runs"),
        Item(where="Figure 3", scale="three", not_run=(NotRun("all", "no time"),)),
    )
}
STUDIES = [study("small", "Figures 1 and 2"), study("large", "Figure 1")]


def test_an_item_is_graded_at_the_largest_size_that_was_run() -> None:
    first, second, third = (evidence(item, "qi2023", PAGES) for item in ITEMS["qi2023"])
    assert first is not None
    assert (first.size, first.studies, first.grade) == ("full", ("large",), Grade.SAME_TREND)
    assert second is not None
    assert (second.size, second.studies, second.grade) == ("desk", ("small",), Grade.NOT_REPRODUCED)
    assert third is None
    assert evidence(ITEMS["qi2023"][0], "li2025", PAGES) is None


def test_a_claim_that_two_pages_show_with_the_same_numbers_counts_once() -> None:
    again, other = (page("Figure 1, again", "full", wide="same trend") for _ in range(2))
    other["claims"][0]["ours"] = "2"
    for second, count in ((again, 1), (other, 2)):
        found = evidence(ITEMS["qi2023"][0], "qi2023", {**PAGES, "second": second})
        assert found is not None
        assert (found.studies, len(found.claims)) == (("large", "second"), count)


def test_a_picture_has_no_claims_and_is_shown() -> None:
    found = evidence(Item(where="Figure 2", scale="", claims=None), "qi2023", PAGES)
    assert found is not None
    assert (found.claims, found.grade) == ((), Grade.SHOWN)


def test_the_index_has_one_row_for_each_item() -> None:
    text = index_markdown(STUDIES, PAGES, items=ITEMS)
    rows = [line for line in text.splitlines() if line.startswith("| Figure")]
    assert rows == [
        "| Figure 1 | same trend | 1 same trend | full: as in the paper | one \\| run | [large](large/report.md) |",
        "| Figure 2 | not reproduced | 1 reproduced, 1 not reproduced | desk: Half. | two runs "
        "| [small](small/report.md) |",
        "| Figure 3 | not run |  |  | three |  |",
    ]
    assert "- Figure 2, wide: The cause is not known." in text
    assert "- Figure 3: all (no time)." in text
    assert "3 tables, figures and theorems: 1 same trend, 1 not reproduced, 1 not run. 1 of them" in text
    appendix = text[text.index("## Appendix") :]
    assert "[small](small/report.md)" in appendix
    assert "[large](large/report.md)" not in appendix
    assert "rules.md" not in text
    assert "(rules.md)" in index_markdown(STUDIES, PAGES, items=ITEMS, beside=("rules",))


def test_a_hypothesis_has_its_own_row_and_is_not_counted() -> None:
    first, second, _ = ITEMS["qi2023"]
    guess = replace(second, claims="deep", hypothesis="more units")
    text = index_markdown(STUDIES, PAGES, items={"qi2023": (first, replace(second, claims="wide"), guess)})
    assert "| Figure 2, hypothesis: more units | reproduced |" in text
    assert "| Figure 2 | not reproduced |" in text
    assert "have 2 tables, figures and theorems: 1 same trend, 1 not reproduced. 1 of them" in text


def test_a_cell_that_was_run_is_not_listed_as_missing() -> None:
    cells = (NotRun("the wide one", "no time", "wide"), NotRun("the blue one", "no data", "blue"))
    items = {"qi2023": (replace(ITEMS["qi2023"][1], not_run=cells),)}
    text = index_markdown(STUDIES, PAGES, items=items)
    assert "the blue one (no data)" in text
    assert "the wide one" not in text
    lost = {"qi2023": (Item(where="Figure 9", scale=""),)}
    assert "- Figure 9: all (there is a study, but no page of it yet)." in index_markdown(STUDIES, PAGES, items=lost)


def test_the_longest_start_gives_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalogue.CAUSES, "x", {"": "Any.", "wide": "Wide."})
    assert (cause("x", "wide and deep"), cause("x", "deep"), cause("y", "deep")) == ("Wide.", "Any.", "")


def test_claims_with_the_same_cause_share_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalogue.CAUSES, "small", {"": "Any.", "wide": "Wide."})
    failed = page("Figure 2", "desk", wide="not reproduced", deep="not reproduced", blue="not reproduced")
    text = index_markdown(STUDIES, {"small": failed}, items={"qi2023": (ITEMS["qi2023"][1],)})
    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        "- Figure 2, wide: Wide.",
        "- Figure 2, deep; blue: Any.",
    ]


def test_sources_name_their_items() -> None:
    assert covered("Section 6.2: Lemmas 6.4 and 6.5, Theorem 6.3") == {
        "Section 6.2", "Lemma 6.4", "Lemma 6.5", "Theorem 6.3",
    }  # fmt: skip
    every = {(paper, item.where) for paper, items in catalogue.ITEMS.items() for item in items}
    for one in studies():
        assert any((one.paper, where) in every for where in covered(one.source)), one.name


@pytest.mark.parametrize(("seeds", "grade"), [(1, Grade.SAME_TREND), (3, Grade.REPRODUCED)])
def test_with_one_seed_errors_prove_a_trend_at_most(seeds: int, grade: Grade) -> None:
    (source,) = catalogue.find("humayun2023-figure19")  # one run for each seed
    one = over_seeds(replace(study("a", "Figure 1"), experiments=lambda size: source.experiments(size)[:seeds]))
    judged, theorem = one.analyse(Workspace(Path()), "full").claims
    assert (judged.verdict.grade, theorem.verdict.grade) == (grade, Grade.REPRODUCED)
    assert one.seeded


OLD = """# a: b

**Verdict at size desk: reproduced.** What was scaled.

|  | Paper | Ours | Spread | Verdict |
| --- | --- | --- | --- | --- |
| old | 1 | 2 |  | reproduced |

![a](figure1.png)

## Rules

- old. Rule: old.

## Config

| Setting | Values |
| --- | --- |
| seed | 0 |
"""


def test_a_page_is_rewritten_where_it_speaks_of_grades_only() -> None:
    claim = Claim("new", "more", "0.9", verdict.differs(0.9, 1.0, 0.2))
    text = rewritten(OLD, [claim])
    assert "**Verdict at size desk: inconclusive.** What was scaled." in text
    assert "| new | more | 0.9 |  | inconclusive |" in text
    assert "- new. Rule: reproduced: larger by" in text
    assert "old" not in text.lower()
    for kept in ("# a: b", "![a](figure1.png)", "## Config", "| seed | 0 |"):
        assert kept in text
    data = regraded({"study": "a", "verdict": "reproduced", "claims": []}, [claim])
    assert (data["study"], data["verdict"]) == ("a", "inconclusive")
    assert stored_claims(data)[0] == claim


def committed() -> dict[str, dict[str, Any]]:
    found = {one.name: read_document(RESULTS / one.name / "data.json") for one in studies()}
    return {name: page for name, page in found.items() if page is not None}


def test_committed_grades_are_those_of_the_rules() -> None:
    seeded = {one.name for one in studies() if one.seeded}
    for name, stored in committed().items():
        claims = stored_claims(stored)
        if name in seeded and re.fullmatch(r"\d+", stored["config"].get("seed", "")):
            claims = one_seed_claims(claims)
        assert [claim_data(one)["verdict"]["grade"] for one in claims] == [
            one["verdict"]["grade"] for one in stored["claims"]
        ], name
        text = (RESULTS / name / "report.md").read_text()
        assert f"**Verdict at size {stored['size']}: {stored['verdict']}.**" in text


def test_committed_charts_have_the_fields_of_today() -> None:
    """Else a reader of data.json meets two names for one number."""
    known = {kind.__name__: {one.name for one in fields(kind)} | {"kind"} for kind in (Series, Lines, Scatter, Bars)}
    other = {
        (name, tuple(sorted(one.keys() ^ known[one["kind"]])))
        for name, stored in committed().items()
        for chart in stored["charts"]
        for one in (chart, *chart["series"])
        if one.keys() != known[one["kind"]]
    }
    assert not other


def test_everything_that_is_not_reproduced_has_a_cause() -> None:
    lacking = [
        (name, claim["what"])
        for name, stored in committed().items()
        for claim in stored["claims"]
        if claim["verdict"]["grade"] == Grade.NOT_REPRODUCED.value and not cause(name, claim["what"])
    ]
    assert not lacking


def test_the_index_and_the_readme_are_those_of_the_committed_pages() -> None:
    pages = committed()
    assert (RESULTS / "index.md").read_text() == index_markdown(studies(), pages, beside=tuple(BESIDE))
    assert totals(pages) in (ROOT / "README.md").read_text()


def test_every_number_of_the_findings_stands_on_a_page_that_they_link_to() -> None:
    text = (RESULTS / "findings.md").read_text()
    linked = sorted(set(re.findall(r"\(([\w-]+)/(?:report\.md|figure\d+\.png)\)", text)))
    assert len(linked) >= 4
    there = "\n".join((RESULTS / name / "report.md").read_text() for name in linked)
    numbers = re.findall(r"\d[\d,]*\.\d+|\d+,\d{3}", text)
    assert len(numbers) > 30
    assert [one for one in numbers if not re.search(rf"(?<![\d.,]){re.escape(one)}(?![\d])", there)] == []
    for name, figure in re.findall(r"\(([\w-]+)/(figure\d+\.png)\)", text):
        assert (RESULTS / name / figure).exists()
