"""Sphinx configuration."""

import importlib.metadata
import re
from typing import Any

project = "regionscope"
author = "The regionscope maintainers"
copyright = author
release = importlib.metadata.version("regionscope")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"regionscope {release}"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
maximum_signature_line_length = 100

ITEM = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*): (.+)")
CODE = re.compile(r"(``.+?``)")


def plain_text_to_rst(lines: list[str]) -> list[str]:
    """Docstrings are plain text: lines of ``name: meaning`` become a list, ``|x|`` and ``a * b`` stay as they are."""
    out: list[str] = []
    in_item = in_example = False
    for line in lines:
        in_example = bool(line.strip()) and (in_example or line.lstrip().startswith(">>>"))
        if in_example:
            out.append(line)
            continue
        text = "".join(part if part.startswith("``") else re.sub(r"([|*])", r"\\\1", part) for part in CODE.split(line))
        item = ITEM.fullmatch(text)
        continues = in_item and text.startswith(" ")
        if bool(item) != in_item and not continues and out and out[-1]:
            out.append("")
        out.append(f"* ``{item[1]}``: {item[2]}" if item else f"  {text.strip()}" if continues else text)
        in_item = bool(item) or continues
    return out


def setup(app: Any) -> None:
    def process(_app: Any, _what: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
        lines[:] = plain_text_to_rst(lines)

    app.connect("autodoc-process-docstring", process)
