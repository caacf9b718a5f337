"""Runs on disk: folders that are written atomically, continued after a kill, and read by everything else."""

from regionscope.lab.store.files import Damaged, DiskFull
from regionscope.lab.store.folder import ENDED, RunFolder, Stored
from regionscope.lab.store.lock import Busy, LockLost, is_held

__all__ = ["ENDED", "Busy", "Damaged", "DiskFull", "LockLost", "RunFolder", "Stored", "is_held"]
