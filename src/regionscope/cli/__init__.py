"""The command line program ``regionscope``: parse, call, print."""

from regionscope.cli.app import app

__all__ = ["app"]
