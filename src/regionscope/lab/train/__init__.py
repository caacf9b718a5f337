"""Training: one loop that can be stopped and resumed bit for bit."""

from regionscope.lab.config import Training
from regionscope.lab.train.evaluation import evaluate
from regionscope.lab.train.history import EpochRow, Progress, Trained
from regionscope.lab.train.loop import train
from regionscope.lab.train.state import TrainState

__all__ = [
    "EpochRow",
    "Progress",
    "TrainState",
    "Trained",
    "Training",
    "evaluate",
    "train",
]
