"""Runs on disk: folders whose files are written atomically, so that a killed run can be resumed."""

from regionscope_lab.store.folder import ENDED, RunFolder, Stored
from regionscope_lab.store.lock import is_held

__all__ = ["ENDED", "RunFolder", "Stored", "is_held"]
