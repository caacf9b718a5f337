"""Sphinx configuration."""

import importlib.metadata
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from PIL import Image

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from build_pages import list_names, write_gallery  # noqa: E402 - found through the line above

project = "regionscope"
author = "The regionscope maintainers"
copyright = author
release = importlib.metadata.version("regionscope")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_math_renderer = "mathml"  # written into the page, so that formulas need no network
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "force"  # the stored notebooks have no outputs
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
exclude_patterns = ["_build", "results"]  # reports and logs are read as files
suppress_warnings = ["ref.python"]  # a name like Partition is in its module and in the package
toc_object_entries = False  # names of functions in the menu of every page make building it take minutes
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_title = f"regionscope {release}"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_inherit_docstrings = False  # docstrings of torch are in torch's own markup
autodoc_preserve_defaults = True
maximum_signature_line_length = 100

ITEM = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*): (.+)")
NEXT_PARAGRAPH = re.compile(r"(?<=\.) (?=(?:Cost: |Returns |Raises ))")  # about the function, not about the item before
NEXT_ITEM = re.compile(r"(?<=\.) (?=[a-z_]\w*(?:, [a-z_]\w*)*: )")
NOT_PYTHON = re.compile(r"<factory>|<function [^<>]*<lambda>>")  # defaults that cannot be parsed
CODE = re.compile(r"(``.+?``)")


def plain_text_to_rst(lines: list[str]) -> list[str]:
    """Docstrings are plain text: ``name: meaning`` becomes a list entry, ``|x|`` and ``a * b`` stay as they are."""
    out: list[str] = []
    hanging: int | None = None  # the indentation of the list item we are in
    quoted = in_example = False
    for line in one_item_in_each_line(lines):
        text = escaped(line.strip())
        indent = len(line) - len(line.lstrip())
        in_example = bool(text) and (in_example or line.lstrip().startswith(">>>"))
        if in_example or not text:
            hanging, quoted = None, False
            out.append(line if text else "")
        elif ITEM.fullmatch(text) or line.lstrip().startswith("* "):
            out += [""] if hanging is None else []
            out.append("* " + text.removeprefix("\\* "))
            hanging, quoted = indent, False
        elif hanging is not None and (indent > hanging or not out[-1].endswith(".")):
            out[-1] += f" {text}"
        else:
            out += [""] if hanging is not None else []
            quoted = indent > 0 and (quoted or not out or not out[-1])
            out.append(f"    {text}" if quoted else text)
            hanging = None
    return [part for line in out for part in (entries(line) if line.startswith("* ") else [line])]


def one_item_in_each_line(lines: list[str]) -> Iterator[str]:
    """Lines in which ``name: meaning`` stands first, also where it follows a sentence."""
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        first, *rest = [line] if line.lstrip().startswith((">>>", "...")) else NEXT_ITEM.split(line)
        yield from (first, *(indent + part for part in rest))


def entries(line: str) -> list[str]:
    """One list entry for each name that an item explains, and what follows about the function as a paragraph."""
    text, *rest = NEXT_PARAGRAPH.split(line[2:], maxsplit=1)
    items = ["* " + re.sub(rf"^{ITEM.pattern}$", r"``\1``: \2", part) for part in NEXT_ITEM.split(text)]
    return [*items, *(part for paragraph in rest for part in ("", paragraph, ""))]


def escaped(text: str) -> str:
    """Signs that reStructuredText would read as markup, except inside ``code``; a plural s may follow code."""
    parts = CODE.split(text)
    for i, part in enumerate(parts):
        if not part.startswith("``"):
            parts[i] = re.sub(r"([|*])", r"\\\1", part).replace("tcp://", "tcp:\\//")
            if i and part[:1].isalnum():
                parts[i] = "\\ " + parts[i]
    return "".join(parts)


def write_inline_math(translator: Any, node: nodes.math) -> None:
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def write_block_math(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def size_image(node: nodes.image, path: Path) -> None:
    """Give an image its width in pixels, so that Sphinx links it to its file; mark it if it has several panels."""
    if "width" not in node and path.suffix == ".png" and path.is_file():
        with Image.open(path) as opened:
            width, height = opened.size
        node["width"] = f"{width}px"
        node["classes"] += ["wide"] if width > 1.65 * height else []


def setup(app: Any) -> None:
    def process(_app: Any, what: str, _name: str, value: object, _options: object, lines: list[str]) -> None:
        borrowed = what == "data" and "\n".join(lines).strip() == inspect.getdoc(type(value))  # of tuple or dict
        lines[:] = [] if borrowed else plain_text_to_rst(lines)

    def expand(_app: Any, _page: str, source: list[str]) -> None:
        source[0] = list_names(source[0])

    def skip(_app: Any, _what: str, name: str, _object: object, _skip: bool, _options: object) -> bool | None:
        return True if name == "set" else None  # matplotlib writes one for each artist, in its own markup

    def sign(_app: Any, _what: str, _name: str, _object: object, _options: object, text: str, returns: str) -> Any:
        return (NOT_PYTHON.sub("...", text), returns) if text else None

    def size_images(app: Any, doctree: nodes.document, _page: str) -> None:
        for node in doctree.findall(nodes.image):
            size_image(node, Path(app.srcdir) / node["uri"])

    app.add_html_math_renderer("mathml", (write_inline_math, None), (write_block_math, None))
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", sign)
    app.connect("autodoc-skip-member", skip)
    app.connect("source-read", expand)
    app.connect("doctree-resolved", size_images)
    app.connect("builder-inited", lambda _app: write_gallery(HERE.parent / "examples" / "gallery", HERE / "_gallery"))
