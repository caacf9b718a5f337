"""The declarations of the studies, and the stored runs that they name."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from regionscope.errors import InputError
from regionscope_lab.papers.declaration import Item, all_items, find_items, printed, runs_of
from regionscope_lab.papers.figures import draw
from regionscope_lab.papers.pages import item_lines
from regionscope_lab.papers.rules import Verdict
from regionscope_lab.papers.seed_table import SeedTable

DOCS = Path(__file__).parents[3] / "docs"
ARCHIVES = DOCS / "results" / "runs"
BEFORE = json.loads((Path(__file__).parent / "values_before.json").read_text())
FILES = sorted({(item.paper, item.file) for item in all_items()})


@pytest.fixture(scope="module")
def stored() -> SeedTable:
    return SeedTable.read(ARCHIVES)


@pytest.mark.parametrize(("paper", "file"), FILES)
def test_each_size_has_the_same_names_and_smaller_sizes_train_less(paper: str, file: str) -> None:
    full, desk, smoke = (runs_of(paper, file, size) for size in ("full", "desk", "smoke"))
    assert list(full) == list(desk) == list(smoke)
    for name, mine in full.items():
        assert len({experiment.key for experiment in mine}) == len(mine)
        assert {one.key for one in mine}.isdisjoint(one.key for one in smoke[name])


@pytest.mark.papers
@pytest.mark.parametrize("item", all_items(), ids=lambda item: item.full_name)
def test_every_claim_is_graded_from_the_stored_runs_or_says_why_not(item: Item, stored: SeedTable) -> None:
    finding = item.find(stored)
    for claim in item.claims:
        assert claim.fidelity in ("A", "B", "C")
        if claim.name not in finding.claims:
            assert claim.why
        else:
            assert finding.claims[claim.name].verdict is not Verdict.NOT_TESTED or claim.why
    assert all(len(row) == len(table.columns) for table in finding.tables for row in table.rows)
    assert all(draw(figure).axes[0].lines for figure in finding.figures)
    cells = {
        f"{table.title}, row {i}, column {j}": value
        for table in finding.tables
        for i, row in enumerate(table.rows)
        for j, value in enumerate(row)
    }
    for place, value in BEFORE.get(item.full_name, {}).items():  # as the reports had it before the runs were declared
        assert math.isclose(float(cells[place]), value, rel_tol=1e-9), place
    page = (DOCS / "papers" / f"{item.paper}.md").read_text()
    assert "\n".join(item_lines(item, finding)) in page, "write the pages with regionscope-lab paper report"


@pytest.mark.parametrize(
    ("paper", "file", "name", "number"),
    [
        ("li2025", "table1", "table2", 0.84),
        ("li2025", "table1", "table8", 0.78),
        ("li2025", "resolution", "table4", 2.74),
        ("qi2023", "toy", "table2", 198),
        ("qi2023", "random_points", "table1", 31),
    ],
)
def test_printed_tables_have_rows_of_one_length(paper: str, file: str, name: str, number: float) -> None:
    """number: the smallest of the table but for its epochs."""
    rows = {key: row for key, row in printed(paper, file, name).items() if key not in ("epochs", "points", "sides")}
    assert len({len(row) for row in rows.values()}) == 1
    assert min(map(min, rows.values())) == number


def test_missing_runs_and_unknown_items_are_refused() -> None:
    nothing = SeedTable({}, {})
    with pytest.raises(InputError, match="Expected 3 runs, got 0"):
        find_items("humayun2023-figure1")[0].find(nothing)
    with pytest.raises(InputError, match="got none"):
        nothing.answers("humayun2023.exact.counts_at")
    with pytest.raises(InputError, match="humayun2023-figure8"):
        find_items("humayun2023-figure88")


def test_every_number_of_the_findings_stands_on_a_page_of_results() -> None:
    text = "".join((DOCS / name).read_text() for name in ("findings.md", "what_counts_follow.md"))
    pages = DOCS.glob("papers/*.md")
    there = "\n".join(page.read_text() for page in pages)
    numbers = re.findall(r"\d[\d,]*\.\d+|\d+,\d{3}", text)
    assert len(numbers) > 30
    assert [one for one in numbers if not re.search(rf"(?<![\d.,]){re.escape(one)}", there)] == []
