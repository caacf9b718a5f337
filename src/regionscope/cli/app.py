"""The program ``regionscope``."""

from __future__ import annotations

from pathlib import Path

from regionscope.cli.program import program

COMMANDS = {
    name: f"regionscope.cli.{where}"
    for name, where in {
        "quickstart": "quickstart:quickstart",
        "regions": "regions:regions",
        "decisions": "regions:decisions",
        "ask": "ask:ask",
        "points": "points:points",
        "level-set": "level_set:level_set",
        "count": "count:count",
        "complexity": "complexity:complexity",
        "explore": "explore:explore",
        "verify": "verify:verify",
    }.items()
}
"""Where the commands are: a module and a name in it. ``table.json`` lists them in this order."""
TABLE = Path(__file__).with_name("table.json")

app = program(
    "regionscope", TABLE, "Exact regions of piecewise-affine PyTorch networks, on slices of their input space."
)
