"""The page of a study, on which text stays text; the index of all pages; the committed pages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regionscope.errors import InputError
from regionscope.exact import decision_regions, linear_regions
from regionscope.geometry import Box
from regionscope_lab.config import DataSpec, Experiment, NetworkSpec
from regionscope_lab.experiment import check
from regionscope_lab.papers import catalogue, verdict
from regionscope_lab.papers.catalogue import cause, find, studies
from regionscope_lab.papers.charts import Bars, Lines, Picture, Pictures, Series
from regionscope_lab.papers.index import index_markdown
from regionscope_lab.papers.items import Item, NotRun, covered, evidence
from regionscope_lab.papers.report import Page, as_data, as_html, as_markdown, claim_data
from regionscope_lab.papers.study import PAPERS, SIZES, Claim, Outcome, Size, Study, Table, one_seed_claims, over_seeds
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.papers.workspace import Workspace
from regionscope_lab.store.files import read_document
from regrade_results import stored_claims

NASTY = "<b>a</b> | & \"quoted\" 'text' [x](y)"


def _experiments(size: Size) -> tuple[Experiment, ...]:
    one = Experiment(data=DataSpec(name="digits"), network=NetworkSpec(name="mlp"))
    return tuple(replace(one, seed=seed) for seed in range(4))


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    raise AssertionError("a page is written from its outcome")


STUDY = Study(
    name="qi2023-figure99",
    source="Figure 99",
    claim=f"Claims {NASTY}.",
    analyse=_analyse,
    experiments=_experiments,
    scaled={"smoke": "Everything is small.", "desk": "Half of it."},
)
OUTCOME = Outcome(
    claims=(
        Claim("counts", "7,082", "7,100", verdict.agrees(7082, 7100, within=0.01), "12"),
        Claim(NASTY, "rises", "falls\nfar", verdict.holds(1, 2)),
        Claim("a picture", "", "drawn", verdict.shown()),
    ),
    tables=(
        Table(
            "Counts",
            ("epoch", "mean|std", "n"),
            ((0, 206.123456, 12345), (100, float("nan"), "two")),
        ),
    ),
    charts=(
        Lines(title="One [line]", x_label="x", y_label="y", series=(Series(label="a", x=(0.0,), y=(float("inf"),)),)),
        Pictures(title="Two", columns=1, pictures=(Picture("p", None),)),
    ),
    notes=(f"Note {NASTY}",),
)
PAGE = Page(
    study=STUDY, size="desk", outcome=OUTCOME, figures=("figure1.png", "figure2.png"), seconds=1234.4,
    experiments=_experiments("desk")[:3], provenance={"regionscope": "1.2.3", "cores": 2, "earlier": []},
)  # fmt: skip
PICTURES = {"figure1.png": "data:image/png;base64,AAAA", "figure2.png": "data:image/png;base64,BBBB"}


class Elements(HTMLParser):
    """What a browser makes of a page: tags with their attributes, the text of cells, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._open and self._open[-1] in ("td", "th"):
            self.cells[-1] += data


def line(**around: Any) -> Series:
    return Series(label="", x=(1.0, 2.0), y=(0.5, 1.5), **around)


def markdown_rows(text: str) -> list[list[str]]:
    """The cells of all table lines; an escaped bar belongs to its cell."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip().replace("\0", "|") for cell in line.replace("\\|", "\0").split("|")[1:-1]] for line in lines]


def test_markdown_has_claims_tables_figures_notes_rules_and_the_command() -> None:
    text = as_markdown(PAGE)
    rows = markdown_rows(text)
    assert rows[0] == ["", "Paper", "Ours", "Spread", "Verdict"]
    assert rows[2] == ["counts", "7,082", "7,100", "12", "reproduced"]
    assert rows[3] == [NASTY, "rises", "falls far", "", "not reproduced"]
    assert rows[4][-1] == "shown"
    assert rows[5:9] == [["epoch", "mean|std", "n"], ["---"] * 3, ["0", "206.1", "12,345"], ["100", "n/a", "two"]]
    assert rows[9] == ["Setting", "Values"]
    assert ["data.name", "digits"] in rows[10:]
    assert "**Verdict at size desk: not reproduced.** Half of it." in text
    assert "![One (line)](figure1.png)" in text
    assert "![Two](figure2.png)" in text
    assert "- counts. Rule: reproduced: within 1% of the paper's value" in text
    assert "regionscope-lab paper run qi2023-figure99 --size desk" in text
    assert "3 training runs, 1,234 s; regionscope 1.2.3, cores 2" in text


AROUND = {
    "Band: ± one standard error.": line(stderr=(0.1, 0.2)),
    "Band: ± one standard deviation.": line(std=(0.1, 0.2)),
    "Band: 95% interval.": line(interval=((0, 1), (1, 2))),
    "Bars: 95% interval.": line(interval=((0, 1), (1, 2))),
    "": line(),
}


@pytest.mark.parametrize("words", AROUND)
def test_what_is_drawn_around_the_values_is_said(words: str) -> None:
    chart: Lines | Bars = Lines(title="t", x_label="x", y_label="y", series=(AROUND[words],))
    if words.startswith("Bars"):
        chart = Bars(title="t", y_label="y", names=("a", "b"), series=(AROUND[words],))
    page = replace(PAGE, outcome=replace(PAGE.outcome, charts=(chart,)), figures=("figure1.png",))
    text = as_markdown(page)
    after = text[text.index("(figure1.png)") :].splitlines()[2]
    assert (after == words) if words else not after.startswith(("Band", "Bars"))
    assert words in as_html(page, {"figure1.png": "picture"})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10772.4, "10,772"),
        (-1079.3, "-1,079"),
        (999.96, "1,000"),
        (2e300, "2e+300"),
        (0.000123456, "0.0001235"),
        (np.float32(0.25), "0.25"),
        (np.int64(1151), "1,151"),
        (float("nan"), "n/a"),
        (None, "n/a"),
        (float("-inf"), "-inf"),
        (True, "True"),
        ("1079.3", "1079.3"),
    ],
)
def test_numbers_of_all_sizes_are_written_alike(value: Any, text: str) -> None:
    outcome = replace(OUTCOME, tables=(Table("One", ("only",), ((value,),)),))
    page = replace(PAGE, outcome=outcome)
    assert [text] in markdown_rows(as_markdown(page))
    cells = Elements(as_html(page, PICTURES)).cells
    assert cells[cells.index("only") + 1] == text


def test_html_shows_the_same_and_text_stays_text() -> None:
    page = Elements(as_html(PAGE, PICTURES))
    assert page.cells[:5] == ["", "Paper", "Ours", "Spread", "Verdict"]
    assert page.cells[5:10] == ["counts", "7,082", "7,100", "12", "reproduced"]
    assert page.cells[10] == NASTY
    last = page.cells.index("Setting")
    assert page.cells[last - 6 : last] == ["0", "206.1", "12,345", "100", "n/a", "two"]
    assert page.cells[page.cells.index("data.name") + 1] == "digits"
    assert f"Claims {NASTY}." in page.text
    assert f"Note {NASTY}" in page.text
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert [image["src"] for image in images] == list(PICTURES.values())
    assert [image["alt"] for image in images] == ["One [line]", "Two"]
    bold = [tag for tag, _ in page.tags if tag == "b"]
    assert len(bold) == 2  # "Claim." and the verdict, and nothing from the texts
    assert ("span", {"class": "not"}) in page.tags


def test_a_smoke_run_has_no_verdict_and_another_size_its_own() -> None:
    page = replace(PAGE, size="smoke", experiments=())
    text, page_html = as_markdown(page), as_html(page, PICTURES)
    assert "**Verdict at size smoke: smoke run: says nothing about the claim.** Everything is small." in text
    assert as_data(page)["verdict"] == "smoke run: says nothing about the claim"
    assert not any(f"| {grade.value} |" in text or f">{grade.value}<" in page_html for grade in verdict.Grade)
    assert "Rules" not in text + page_html
    full = replace(page, size="full", outcome=replace(OUTCOME, claims=OUTCOME.claims[:1]))
    assert "**Verdict at size full: reproduced.** \n" in as_markdown(full)
    assert ("span", {"class": "reproduced"}) in Elements(as_html(full, PICTURES)).tags


def test_the_data_are_strict_json_with_everything_but_partitions() -> None:
    document: dict[str, Any] = json.loads(json.dumps(as_data(PAGE), allow_nan=False))
    assert document["verdict"] == "not reproduced"
    assert document["claims"][0]["verdict"]["grade"] == "reproduced"
    assert document["tables"][0]["rows"] == [[0, 206.123456, 12345], [100, None, "two"]]
    assert [chart["kind"] for chart in document["charts"]] == ["Lines"]
    assert document["charts"][0]["series"][0]["y"] == [None]
    assert document["config"]["data.name"] == "digits"
    assert document["provenance"]["cores"] == 2
    assert document["seconds"] == 1234.4


ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "docs" / "results"


def _two_claims(workspace: Workspace, size: Size) -> Outcome:
    return Outcome(claims=(Claim("a", "", "", verdict.differs(2.0, 1.0, 0.1)), Claim("b", "", "", verdict.holds(0, 1))))


def study(name: str, source: str) -> Study:
    return Study(name=name, source=source, claim="", analyse=_two_claims, scaled={"desk": "Half."})


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


def test_claims_with_the_same_cause_share_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalogue.CAUSES, "small", {"": "Any.", "wide": "Wide."})
    failed = page("Figure 2", "desk", wide="not reproduced", deep="not reproduced", blue="not reproduced")
    lost = Item(
        where="Figure 9", scale="", not_run=(NotRun("the wide", "no time", "wide"), NotRun("the red", "no data"))
    )
    text = index_markdown(STUDIES, {"small": failed}, items={"qi2023": (ITEMS["qi2023"][1], lost)})
    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        "- Figure 2, wide: Wide.",
        "- Figure 2, deep; blue: Any.",
        "- Figure 9: the wide (no time).",
        "- Figure 9: the red (no data).",
    ]


@pytest.mark.parametrize(("seeds", "grade"), [(1, Grade.SAME_TREND), (3, Grade.REPRODUCED)])
def test_with_one_seed_errors_prove_a_trend_at_most(seeds: int, grade: Grade) -> None:
    (source,) = catalogue.find("humayun2023-figure19")  # one run for each seed
    one = over_seeds(replace(study("a", "Figure 1"), experiments=lambda size: source.experiments(size)[:seeds]))
    judged, theorem = one.analyse(Workspace(Path()), "full").claims
    assert (judged.verdict.grade, theorem.verdict.grade) == (grade, Grade.REPRODUCED)
    assert one.seeded


@pytest.fixture(scope="module")
def committed() -> dict[str, dict[str, Any]]:
    pages = {one.name: read_document(RESULTS / one.name / "data.json") for one in studies()}
    return {name: page for name, page in pages.items() if page is not None}


def test_committed_grades_are_those_of_the_rules(committed: dict[str, dict[str, Any]]) -> None:
    seeded = {one.name for one in studies() if one.seeded}
    for name, stored in committed.items():
        claims = stored_claims(stored)
        if name in seeded and re.fullmatch(r"\d+", stored["config"].get("seed", "")):
            claims = one_seed_claims(claims)
        assert [claim_data(one)["verdict"]["grade"] for one in claims] == [
            one["verdict"]["grade"] for one in stored["claims"]
        ], name
        text = (RESULTS / name / "report.md").read_text()
        assert f"**Verdict at size {stored['size']}: {stored['verdict']}.**" in text


def test_everything_that_is_not_reproduced_has_a_cause(committed: dict[str, dict[str, Any]]) -> None:
    lacking = [
        (name, claim["what"])
        for name, stored in committed.items()
        for claim in stored["claims"]
        if claim["verdict"]["grade"] == Grade.NOT_REPRODUCED.value and not cause(name, claim["what"])
    ]
    assert not lacking


def test_every_study_has_a_name_of_its_paper_a_source_and_a_claim() -> None:
    names = [study.name for study in studies()]
    assert len(names) == len(set(names))
    papers = [study.paper for study in studies()]
    assert papers == sorted(papers, key=list(PAPERS).index)
    items = {(paper, item.where) for paper, rows in catalogue.ITEMS.items() for item in rows}
    for one in studies():
        assert one.name.startswith(f"{one.paper}-")
        assert one.claim.endswith(".")
        assert one.scaled["smoke"]
        assert set(one.scaled) <= set(SIZES)
        assert any((one.paper, where) in items for where in covered(one.source)), one.name


@pytest.mark.parametrize("size", SIZES)
def test_every_experiment_can_be_made(size: Size) -> None:
    """Each once whatever its seed, which changes nothing that can be wrong."""
    every = [replace(one, seed=0) for study in studies() for one in study.experiments(size)]
    wanted: dict[str, Experiment] = {repr(one): one for one in every}
    assert wanted
    for experiment in wanted.values():
        check(experiment)


def test_find_by_name_paper_and_all() -> None:
    assert [study.name for study in find("safran2022-example1")] == ["safran2022-example1"]
    assert {study.paper for study in find("qi2023")} == {"qi2023"}
    assert find("all") == studies()
    for name, words in (("example1", r"Did you mean safran2022-example1\?"), ("nothing", "For all names, run: ")):
        with pytest.raises(InputError, match=f"got '{name}'.*{words}"):
            find(name)


def test_what_the_colours_of_pictures_mean_is_said_once() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)).double()
    square = Box.between(-1.0, 1.0, (2,))
    part, decision = linear_regions(model, square), decision_regions(model, square)
    points, labels = torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)
    expected = {
        "Points: training data, coloured by class.": [Picture("", None, points=points, labels=labels)],
        "Linear regions: colours only tell them apart.": [Picture("", part)] * 2,
        "Decision regions: the colour is the predicted class, the thick line the boundary.": [
            Picture("", decision, "decision")
        ],
        "Hue: predicted class; shade: linear region; thick line: decision boundary.": [Picture("", decision)],
        "Regions after a layer: colours only tell them apart. Lines: zeros of neurons, the first layer darkest.": [
            Picture("", part, layer=next(iter(part.by_layer)))
        ],
    }
    for words, pictures in {**expected, " ".join(expected): [one for row in expected.values() for one in row]}.items():
        chart = Pictures(title="t", columns=1, pictures=tuple(pictures))
        page = replace(PAGE, outcome=replace(PAGE.outcome, charts=(chart,)), figures=("figure1.png",))
        text = as_markdown(page)
        assert text[text.index("(figure1.png)") :].splitlines()[2] == words
        assert words in as_html(page, {"figure1.png": "picture"})
