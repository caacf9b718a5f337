"""The one table of ``make bench``: seconds, floor, ratio and memory, each beside what was measured before.

The benchmarks with a floor store their rows in docs/benchmarks/bench.json, with the machine and the versions. It also
holds ``peers``: milliseconds of other tools and of regionscope, measured side by side. Performance shows the rows in
tables and in a figure, Comparison the peers.

python benchmarks/table.py                        # print the stored rows, and bring the pages up to date
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

__all__ = ["figure", "load", "page_tables", "peer_tables", "print_table", "store"]

DOCS = Path(__file__).parents[1] / "docs"
STORED = DOCS / "benchmarks" / "bench.json"
DEVICES = ("cpu", "cuda")
TABLES = re.compile(r"(?<=<!-- benchmarks -->\n).*?(?=<!-- end of benchmarks -->)", re.DOTALL)
PEERS = re.compile(r"(?<=<!-- peers -->\n).*?(?=<!-- end of peers -->)", re.DOTALL)
KINDS = {"exact": "lines and planes", "space": "cubes"}
COLOURS = {"streamed": "#009E73", "exact": "#0072B2", "space": "#D55E00"}
BENCHMARKS = ("exact", "space", "complexity", "points", "smooth")
KEPT = ("seconds", "ratio", "peak_gib")
Row = dict[str, Any]


def load(name: str) -> list[Row]:
    """The stored rows of a benchmark on a device, such as "exact-cpu", or "peers"; none where nothing is stored."""
    return _stored().get(name, [])


def _stored() -> dict[str, list[Row]]:
    stored: dict[str, list[Row]] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    return stored


def store(name: str, rows: Sequence[Row]) -> list[Row]:
    """Put rows among those of a benchmark; what they had there before stays as ``previous``. Returns the new rows.

    A row has case, seconds, floor, ratio, peak_gib (or None) and its ``results.surroundings``. Rows that were not
    measured again stay as they are.
    """
    everything = _stored()
    stored = {row["case"]: row for row in everything.get(name, [])}
    new = []
    for row in rows:
        before = stored.get(row["case"])
        previous = {"previous": {key: before[key] for key in KEPT}} if before is not None else {}
        new.append({**row, **previous})
    everything[name] = [*(stored | {row["case"]: row for row in new}).values()]
    STORED.parent.mkdir(parents=True, exist_ok=True)
    STORED.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
    return new


def print_table(rows: Sequence[Row], *, head: bool = True) -> None:
    """One line for each row; a column "before" stands right of each number that is kept."""
    if head:
        titles = "seconds", "before", "floor", "ratio", "before", "GiB", "before"
        print(f"{'work':44} {'regions':>10} " + " ".join(f"{title:>8}" for title in titles), flush=True)
    for row in rows:
        before = row.get("previous", dict.fromkeys(KEPT))
        regions = row.get("regions", row.get("cells"))
        values = (row["seconds"], before["seconds"], row["floor"], row["ratio"], before["ratio"], row["peak_gib"],
                  before["peak_gib"])  # fmt: skip
        cells = " ".join(f"{'' if value is None else f'{value:.4g}':>8}" for value in values)
        print(f"{row['case']:44} {'' if regions is None else f'{regions:,}':>10} {cells}", flush=True)


def rows_on(device: str) -> list[Row]:
    return [row for name in BENCHMARKS for row in load(f"{name}-{device}")]


def short(value: float | None) -> str:
    """Two digits, and whole numbers from 100 on; nothing for None."""
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def page_tables() -> str:
    """The stored rows as the tables of docs/performance.md."""
    text = ""
    for device in DEVICES:
        rows = rows_on(device)
        if rows:
            titles = "regions", "seconds", "ratio", "GiB"
            text += f"\n| {rows[0]['device'].replace('cpu', 'CPU')} | {' | '.join(titles)} |\n|{'---|' * 5}\n"
        for row in rows:
            values = [row.get("regions", row.get("cells")), row["seconds"], row["ratio"], row["peak_gib"]]
            text += f"| {' | '.join([row['case'], *map(short, values)])} |\n"
    return text.replace("*", "\\*") + "\n"


def peer_tables() -> str:
    """The stored times of other tools beside ours, in milliseconds; the least of each row in bold, and our ratio to the
    fastest other tool.
    """
    text, peers = "", load("peers")
    for measured in dict.fromkeys(row["measured"] for row in peers):
        rows = [row for row in peers if row["measured"] == measured]
        tools = list(dict.fromkeys(tool for row in rows for tool in row["milliseconds"]))
        text += f"\n{measured}:\n\n| work | regions | {' | '.join(tools)} | floor | ratio to the fastest other tool |\n"
        text += f"|{'---|' * (len(tools) + 4)}\n"
        for row in rows:
            times = row["milliseconds"]
            least = min(times.values())
            written = {tool: f"**{ms:,g}**" if ms == least else f"{ms:,g}" for tool, ms in times.items()}
            shown = [written.get(tool, "") for tool in tools]
            ours, others = (
                [ms for tool, ms in times.items() if tool.startswith("regionscope") == us] for us in (True, False)
            )
            cells = [row["work"], short(row["regions"]), *shown, short(row["floor"]), f"{min(ours) / min(others):.2f}"]
            text += f"| {' | '.join(cells)} |\n"
    return text.replace("]*", "]\\*") + "\n"


def figure() -> Figure:
    """Time against regions, both on a logarithmic scale; processor time where that is less."""
    drawn = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = drawn.subplots()
    for device, marker in zip(DEVICES, "o^", strict=True):
        for name, kind in KINDS.items():
            rows = [row for row in load(f"{name}-{device}") if row.get("regions", row.get("cells", 0)) > 1]
            streamed = [row for row in rows if "streamed" in row["case"]]
            for key, what, chosen in (
                (name, kind, [row for row in rows if row not in streamed]),
                ("streamed", "streamed planes", streamed),
            ):
                x = [row.get("regions", row.get("cells")) for row in chosen]
                y = [min(row["seconds"], row.get("cpu", row["seconds"])) for row in chosen]
                if chosen:
                    label = f"{what}, {chosen[0]['device'].replace('cpu', 'CPU')}"
                    ax.plot(x, y, marker, color=COLOURS[key], label=label, alpha=0.8)
    ax.set(xscale="log", yscale="log", xlabel="regions", ylabel="seconds")
    low, high = ax.get_xlim()
    ax.axline((1e6, 10.0), (1e5, 1.0), color="#888888", linewidth=0.8, zorder=0, label="10 µs for each region")
    ax.set_xlim(low, high)
    ax.legend(frameon=False, fontsize="small")
    return drawn


def main() -> None:
    for device in DEVICES:
        rows = rows_on(device)
        if rows:
            print(f"{rows[0]['device']}, torch {rows[0]['torch']}, {rows[0]['threads']} thread(s)")
            print_table(rows)
    for name, pattern, tables in (("performance", TABLES, page_tables), ("comparison", PEERS, peer_tables)):
        page, text = DOCS / f"{name}.md", tables()
        page.write_text(pattern.sub(lambda _, text=text: text, page.read_text(encoding="utf-8")), encoding="utf-8")
    figure().savefig(DOCS / "images" / "speed.png", dpi=150)


if __name__ == "__main__":
    main()
