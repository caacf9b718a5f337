"""Training: one loop that can be stopped and resumed bit for bit."""

from regionscope.lab.config import Training
from regionscope.lab.train.evaluation import evaluate
from regionscope.lab.train.history import EpochRow, Trained, TrainingProgress
from regionscope.lab.train.loop import train
from regionscope.lab.train.state import TrainState

__all__ = ["EpochRow", "TrainState", "Trained", "Training", "TrainingProgress", "evaluate", "train"]
