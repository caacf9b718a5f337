"""Write the table of docs/networks.md from the tables of operations: python tools/make_network_table.py"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from regionscope.network import refuse
from regionscope.network.activations import ACTIVATIONS
from regionscope.network.onnx.read import QUANTISED
from regionscope.network.onnx.table import OPERATORS
from regionscope.network.record import RULES
from regionscope.network.rules import heads

PAGE = Path(__file__).parents[1] / "docs" / "networks.md"
BEGIN, END = "<!-- table of operations -->", "<!-- end of the table -->"
_FOLDS = ("activations", "choices", "distances", "order", "recurrent")
_BENDS, _HEAD = "it bends smoothly", "it bends smoothly; as the last function it is taken off for labels"


def main() -> None:
    """Replace the table of the page."""
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE}")


def with_table(page: str) -> str:
    """The page with the table as the rules say it."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = ["| operation | exact regions | condition or reason |", "|---|---|---|", *map(_row, rows_of_table())]
    return f"{before}{BEGIN}\n\n" + "\n".join(rows) + f"\n\n{END}{after}"


def rows_of_table() -> list[tuple[list[str], str, str]]:
    """Names, what exact regions make of them, and the condition or the reason."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for key, entry in RULES.items():
        name = key if isinstance(key, str) else getattr(key, "__name__", str(key))
        if name.startswith("__") or name in ACTIVATIONS:
            continue
        function = entry.function
        while isinstance(function, partial):
            function = function.func
        folds = function.__module__.rpartition(".")[2] in _FOLDS or name == "scatter_reduce"
        kind = "folds" if folds else "affine"
        grouped.setdefault((kind, entry.when), []).append(_shown(name))
    titles = [entry.title for entry in dict.fromkeys(ACTIVATIONS.values()) if entry.title]
    rows = [(titles, "folds", "")]
    rows += [(names, kind, when) for (kind, when), names in sorted(grouped.items(), key=lambda row: row[0])]
    keep_order = (*heads.SOFTMAX, *heads.INCREASING)
    refused: dict[str, list[str]] = {_HEAD: [*keep_order]}
    for name, reason in refuse.REASONS.items():
        if name not in RULES and name not in keep_order:
            refused.setdefault(_BENDS if reason in ("", *refuse.LEAVE_OFF) else reason, []).append(name)
    for layer, reason in refuse.LAYERS.items():
        refused.setdefault(reason, []).append(f"nn.{layer.__name__}")
    rows += [(names, "refused", reason) for reason, names in refused.items()]
    rows.append(([*OPERATORS], "as the functions of torch", "ONNX operators"))
    rows.append((sorted(QUANTISED), "refused", f"ONNX operators: {refuse.QUANTISED.removeprefix('it is ')}"))
    return rows


def _shown(name: str) -> str:
    package, _, rest = name.partition("_")
    return f"{package}.{rest}" if package in ("fft", "linalg") else name.strip("_")


def _row(row: tuple[Iterable[str], str, str]) -> str:
    names, kind, reason = row
    return f"| {', '.join(f'`{name}`' for name in sorted(dict.fromkeys(names)))} | {kind} | {reason} |"


if __name__ == "__main__":
    main()
