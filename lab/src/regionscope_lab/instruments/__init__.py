"""Instruments by name: what a ``MeasureSpec`` can ask for, as functions of a model."""

from regionscope_lab.instruments.registry import about, build, check, names

__all__ = ["about", "build", "check", "names"]
