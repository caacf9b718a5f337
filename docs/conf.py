"""Sphinx configuration."""

from importlib.metadata import version

project = "regionscope"
author = "The regionscope maintainers"
copyright = author
release = version("regionscope")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"regionscope {release}"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_preserve_defaults = True
