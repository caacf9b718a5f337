"""Training: one loop that can be stopped and resumed bit for bit."""

from regionscope_lab.config import Training
from regionscope_lab.train.evaluation import evaluate
from regionscope_lab.train.session import train
from regionscope_lab.train.state import EpochRow, Trained, TrainingProgress, TrainState

__all__ = ["EpochRow", "TrainState", "Trained", "Training", "TrainingProgress", "evaluate", "train"]
