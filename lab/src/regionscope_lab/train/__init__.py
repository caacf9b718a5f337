"""Training: one loop that can be stopped and resumed bit for bit."""

from regionscope_lab.config import Training
from regionscope_lab.train.evaluation import evaluate
from regionscope_lab.train.history import EpochRow, Trained, TrainingProgress
from regionscope_lab.train.loop import train
from regionscope_lab.train.state import TrainState

__all__ = ["EpochRow", "TrainState", "Trained", "Training", "TrainingProgress", "evaluate", "train"]
