"""Data for experiments: toy sets, embedded digits, and the image sets that users have on disk."""

from regionscope_lab.data.augment import crop_flip, mixup
from regionscope_lab.data.dataset import Dataset, DataSplit, add_label_noise
from regionscope_lab.data.download import get
from regionscope_lab.data.files import data_root
from regionscope_lab.data.registry import check_options, load, names
from regionscope_lab.data.toy import digits, gaussian_quantiles, random_labels, two_moons

__all__ = [
    "DataSplit",
    "Dataset",
    "add_label_noise",
    "check_options",
    "crop_flip",
    "data_root",
    "digits",
    "gaussian_quantiles",
    "get",
    "load",
    "mixup",
    "names",
    "random_labels",
    "two_moons",
]
