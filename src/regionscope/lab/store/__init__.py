"""Runs on disk: folders that are written atomically, continued after a kill, and read by everything else."""

from regionscope.lab.store.folder import ENDED, RunFolder, Stored
from regionscope.lab.store.lock import is_held

__all__ = ["ENDED", "RunFolder", "Stored", "is_held"]
