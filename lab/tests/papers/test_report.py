"""The page of a study beyond the papers, on which text stays text."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import torch

from regionscope.exact import decision_regions, linear_regions
from regionscope.geometry import Box
from regionscope_lab.config import DataSpec, Experiment, NetworkSpec
from regionscope_lab.experiment import check
from regionscope_lab.papers import verdict
from regionscope_lab.papers.catalogue import studies
from regionscope_lab.papers.charts import Bars, Lines, Picture, Pictures, Series
from regionscope_lab.papers.report import Page, as_data, as_html, as_markdown
from regionscope_lab.papers.study import SIZES, Claim, Outcome, Size, Study, Table
from regionscope_lab.papers.workspace import Workspace

NASTY = "<b>a</b> | & \"quoted\" 'text' [x](y)"


def _experiments(size: Size) -> tuple[Experiment, ...]:
    one = Experiment(data=DataSpec(name="digits"), network=NetworkSpec(name="mlp"))
    return tuple(replace(one, seed=seed) for seed in range(4))


def _analyse(workspace: Workspace, size: Size) -> Outcome:
    raise AssertionError("a page is written from its outcome")


STUDY = Study(
    name="beyond-figure99",
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
    assert "regionscope-lab paper run beyond-figure99 --size desk" in text
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


@pytest.mark.parametrize("size", SIZES)
def test_every_experiment_can_be_made(size: Size) -> None:
    """Each once whatever its seed, which changes nothing that can be wrong."""
    every = [replace(one, seed=0) for study in studies() for one in study.experiments(size)]
    wanted: dict[str, Experiment] = {repr(one): one for one in every}
    assert wanted
    for experiment in wanted.values():
        check(experiment)


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
