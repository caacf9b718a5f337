"""Hypothesis draws the same examples in every run, so that a result does not depend on chance."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")
