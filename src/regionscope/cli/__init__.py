"""The command line program ``regionscope``: parse, call, print."""

from regionscope.cli.commands import app

__all__ = ["app"]
