"""Training: one loop that can be stopped and resumed bit for bit, and many small networks at once."""

from regionscope.lab.config import Training
from regionscope.lab.train.evaluation import evaluate
from regionscope.lab.train.history import EpochRow, Progress, Trained
from regionscope.lab.train.loop import train
from regionscope.lab.train.rules import Adjusted, adjust
from regionscope.lab.train.stacked import train_together
from regionscope.lab.train.state import TrainState

__all__ = [
    "Adjusted",
    "EpochRow",
    "Progress",
    "TrainState",
    "Trained",
    "Training",
    "adjust",
    "evaluate",
    "train",
    "train_together",
]
