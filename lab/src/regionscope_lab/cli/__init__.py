"""The command line program ``regionscope-lab``."""

from regionscope_lab.cli.app import app

__all__ = ["app"]
