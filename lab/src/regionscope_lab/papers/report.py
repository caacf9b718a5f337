"""The page of a study, as Markdown and as HTML: claims with verdicts, tables, figures, settings and provenance."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from numbers import Integral, Real
from typing import Any

from regionscope.exact import DecisionRegions
from regionscope.file_io import plain
from regionscope_lab.config import Experiment
from regionscope_lab.papers.charts import Chart, Lines, Picture, Pictures, Scatter
from regionscope_lab.papers.study import PAPERS, Claim, Outcome, Size, Study
from regionscope_lab.papers.verdict import Grade
from regionscope_lab.sweep.settings import used_settings

_STYLE = """
:root { color-scheme: light dark; --good: #00664b; --fair: #8a5a00; --bad: #a33b00; --soft: #555; --line: #ddd }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a;
       overflow-wrap: break-word }
.table { overflow-x: auto; margin: 1rem 0 } table { border-collapse: collapse }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line) } td { min-width: 3.5rem; overflow-wrap: normal }
th { text-align: left } td:not(:first-child) { font-variant-numeric: tabular-nums } img { max-width: 100% }
.figure { overflow-x: auto; margin: 1rem 0 }
.reproduced { color: var(--good) } .same { color: var(--fair) } .not { color: var(--bad) }
.inconclusive, small { color: var(--soft) }
@media (prefers-color-scheme: dark) {
  :root { --good: #57d9a3; --fair: #f0b429; --bad: #ff8f5e; --soft: #aab; --line: #3a414b }
  body { background: #14181d; color: #e6eaf0 }
}
@media (max-width: 40rem) {
  h1 { font-size: 1.6rem } table { font-size: .85rem } th, td { padding: .25rem .45rem }
  table:has(th:nth-child(4)) { width: max-content; max-width: 46rem } img.wide { width: 44rem; max-width: none }
}
"""
SMOKE = "smoke run: says nothing about the claim"
_EXPONENT_FROM = 1e15  # floats from here on are written with an exponent
_APART = "{}: colours only tell them apart."
_ZEROS = "Lines: zeros of neurons, the first layer darkest."
_DECISION = "Decision regions: the colour is the predicted class, the thick line the boundary."
_SHADES = "Hue: predicted class; shade: linear region; thick line: decision boundary."
_CLASSES = {grade.value: grade.value.split()[0] for grade in Grade}


@dataclass(frozen=True, kw_only=True)
class Page:
    """Everything on the page of one study.

    figures: file names beside it, one for each chart. experiments: those of the runs that it was made from.
    """

    study: Study
    size: Size
    outcome: Outcome
    figures: tuple[str, ...]
    seconds: float
    experiments: tuple[Experiment, ...]
    provenance: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """The grade of the claims; a smoke run has too few runs and steps for one."""
        return SMOKE if self.size == "smoke" else self.outcome.grade.value

    @property
    def claims(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Columns and rows of the claims, without verdicts for a smoke run."""
        columns, rows = claim_table(self.outcome.claims)
        return (columns[:-1], tuple(row[:-1] for row in rows)) if self.size == "smoke" else (columns, rows)


def as_markdown(page: Page) -> str:
    """The page as Markdown."""
    study, outcome = page.study, page.outcome
    lines = [f"# {study.name}: {study.source}", "", *([outcome.summary, ""] if outcome.summary else [])]
    lines += [f"{PAPERS[study.paper]}.", "", f"**Claim.** {study.claim}", ""]
    lines += [f"**Verdict at size {page.size}: {page.verdict}.** {_scaled(page)}", ""]
    lines += [*markdown_table(*page.claims), ""]
    for title, name, around, _ in _captions(page):
        lines += [f"![{_flat(title)}]({name})", "", *([around, ""] if around else [])]
    for table in outcome.tables:
        lines += [f"## {table.title}", "", *markdown_table(table.columns, table.rows), ""]
    if outcome.notes:
        lines += ["## Notes", "", *(f"- {note}" for note in outcome.notes), ""]
    if judged := _rules(page):
        lines += ["## Rules", "", *(f"- {rule}" for rule in judged), ""]
    if config := _config(page):
        lines += ["## Config", "", *markdown_table(("Setting", "Values"), config), ""]
    lines += [f"Made with `regionscope-lab paper run {study.name} --size {page.size}`: {_cost(page)}.", ""]
    return "\n".join(lines)


def as_html(page: Page, pictures: Mapping[str, str]) -> str:
    """The page as one HTML file; ``pictures`` gives the address (such as a data URI) of every figure."""
    study, outcome, text = page.study, page.outcome, html.escape
    body = [f"<h1>{text(study.name)}: {text(study.source)}</h1>"]
    body += [f"<p>{text(outcome.summary)}</p>"] if outcome.summary else []
    body += [f"<p>{text(PAPERS[study.paper])}.</p>"]
    body += [f"<p><b>Claim.</b> {text(study.claim)}</p>"]
    grade = page.verdict
    body += [f'<p><b>Verdict at size {page.size}: <span class="{_CLASSES.get(grade, "")}">{grade}</span>.</b> ']
    body += [f"{text(_scaled(page))}</p>", _html_table(*page.claims)]
    for title, name, around, wide in _captions(page):
        image = f'<img src="{text(pictures[name])}" alt="{text(title)}"{" class=wide" * wide}>'
        body += [f'<div class="figure">{image}</div>', *([f"<p>{around}</p>"] if around else [])]
    for table in outcome.tables:
        body += [f"<h2>{text(table.title)}</h2>", _html_table(table.columns, table.rows)]
    if outcome.notes:
        body += ["<h2>Notes</h2><ul>", *(f"<li>{text(note)}</li>" for note in outcome.notes), "</ul>"]
    if judged := _rules(page):
        body += ["<h2>Rules</h2><ul>", *(f"<li>{text(rule)}</li>" for rule in judged), "</ul>"]
    if config := _config(page):
        body += ["<h2>Config</h2>", _html_table(("Setting", "Values"), config)]
    body += [
        f"<p><small>Made with regionscope-lab paper run {text(study.name)} --size {page.size}: {text(_cost(page))}."
    ]
    body += ["</small></p>"]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>{text(study.name)}</title><style>{_STYLE}</style>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def as_data(page: Page) -> dict[str, Any]:
    """The numbers behind the page, without pictures of partitions."""
    outcome = page.outcome
    document = {
        "study": page.study.name,
        "paper": page.study.paper,
        "source": page.study.source,
        "claim": page.study.claim,
        "size": page.size,
        "summary": outcome.summary,
        "verdict": page.verdict,
        "claims": [claim_data(claim) for claim in outcome.claims],
        "tables": [asdict(table) for table in outcome.tables],
        "charts": [_plain(chart) for chart in outcome.charts if not isinstance(chart, Pictures)],
        "notes": list(outcome.notes),
        "seconds": round(page.seconds, 1),
        "runs": len(page.experiments),
        "config": dict(_config(page)),
        "provenance": dict(page.provenance),
    }
    cleaned: dict[str, Any] = plain(document)
    return cleaned


def claim_data(claim: Claim) -> dict[str, Any]:
    """A claim as plain values."""
    return {**asdict(claim), "verdict": {**asdict(claim.verdict), "grade": claim.verdict.grade.value}}


def claim_table(claims: Sequence[Claim]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Columns and rows of the claims."""
    rows = tuple((one.what, one.paper, one.ours, one.spread, one.verdict.grade.value) for one in claims)
    return ("", "Paper", "Ours", "Spread", "Verdict"), rows


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """The lines of a table."""
    lines = ["| " + " | ".join(map(_cell, columns)) + " |", "|" + " --- |" * len(columns)]
    return lines + ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]


def _html_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(_number(v))}</td>" for v in row) + "</tr>\n" for row in rows)
    return f"<div class='table'><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"


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


def _config(page: Page) -> tuple[tuple[str, str], ...]:
    """Every setting of the trainings that is set in one of them, with all values that it takes over them."""
    values: dict[str, dict[str, None]] = {}  # texts in the order in which they come, each once
    for experiment in page.experiments:
        for name, value in used_settings(experiment.to_dict()).items():
            values.setdefault(name, {})[str(value)] = None
    return tuple((name, ", ".join(found)) for name, found in values.items() if not found.keys() <= {"None", ""})


def rules(claims: Sequence[Claim]) -> list[str]:
    """Every rule once, after the claims that it judged."""
    judged: dict[str, list[str]] = {}
    for claim in claims:
        if claim.verdict.rule:
            judged.setdefault(claim.verdict.rule, []).append(claim.what)
    return [f"{'; '.join(claims)}. Rule: {rule}." for rule, claims in judged.items()]


def _rules(page: Page) -> list[str]:
    return [] if page.size == "smoke" else rules(page.outcome.claims)


def _captions(page: Page) -> list[tuple[str, str, str, bool]]:
    """Title, file, what is drawn around the values in words, and whether it is wide, for every figure."""
    return [
        (chart.title, name, _drawn_around(chart), isinstance(chart, Pictures) and chart.columns > 2)
        for chart, name in zip(page.outcome.charts, page.figures, strict=True)
    ]


def _drawn_around(chart: Chart) -> str:
    if isinstance(chart, Scatter):
        return "" if chart.fit is None else "Band: 95% interval of the line."
    if isinstance(chart, Pictures):
        return " ".join(dict.fromkeys(words for picture in chart.pictures for words in _colours(picture)))
    kinds = {
        "95% interval" if one.interval else "± one standard error" if one.stderr else "± one standard deviation"
        for one in chart.series
        if one.interval or one.stderr or one.std
    }
    return f"{'Band' if isinstance(chart, Lines) else 'Bars'}: {', '.join(sorted(kinds))}." if kinds else ""


def _colours(picture: Picture) -> list[str]:
    """What the colours of a picture mean, in sentences."""
    said = [] if picture.points is None else ["Points: training data, coloured by class."]
    if isinstance(picture.result, DecisionRegions):
        said.append(_DECISION if picture.kind == "decision" else _SHADES)
    elif picture.layer:
        said += [_APART.format("Regions after a layer"), _ZEROS]
    elif picture.result is not None:
        said.append(_ZEROS if picture.kind == "neurons" else _APART.format("Linear regions"))
    return said


def _scaled(page: Page) -> str:
    return page.study.scaled.get(page.size, "")


def _flat(text: str) -> str:
    return text.replace("\n", " ").replace("]", ")").replace("[", "(")


def _cost(page: Page) -> str:
    said = ", ".join(f"{name} {value}" for name, value in page.provenance.items() if isinstance(value, str | int))
    runs = f"{len(page.experiments)} training runs, " if page.experiments else ""
    took = f"{page.seconds:,.0f} s" if page.seconds else "time not recorded"
    return f"{runs}{took}; {said}"


def _plain(value: Any) -> Any:
    """Dataclasses as objects, with the name of their class."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = {entry.name: _plain(getattr(value, entry.name)) for entry in fields(value)}
        return {"kind": type(value).__name__, **inner}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value
