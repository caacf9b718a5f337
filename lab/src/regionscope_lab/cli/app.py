"""The program ``regionscope-lab``."""

from __future__ import annotations

from pathlib import Path

from regionscope.cli.program import program

COMMANDS = {
    name: f"regionscope_lab.cli.{where}"
    for name, where in {
        "train": "train:train",
        "sweep": "sweep:sweep",
        "data": "data:data",
        "paper": "paper:paper",
        "shallow": "shallow:shallow",
        "regions": "stored:regions",
        "decisions": "stored:decisions",
        "ask": "stored:ask",
        "level-set": "stored:level_set",
        "count": "stored:count",
        "complexity": "stored:complexity",
        "explore": "explore:explore",
        "animate": "animate:animate",
    }.items()
}
"""Where the commands are: a module and a name in it. ``table.json`` lists them in this order."""
TABLE = Path(__file__).with_name("table.json")

app = program("regionscope-lab", TABLE, "Train and measure many networks, and reproduce four papers with regionscope.")
