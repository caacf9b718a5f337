"""Data for experiments: toy sets, embedded digits, and the image sets that users have on disk."""

from regionscope.lab.data.augment import crop_flip, mixup
from regionscope.lab.data.dataset import Dataset, DataSplit, add_label_noise
from regionscope.lab.data.digits import digits
from regionscope.lab.data.download import get
from regionscope.lab.data.files import data_root
from regionscope.lab.data.registry import check_options, load, names
from regionscope.lab.data.toy import gaussian_quantiles, random_labels, two_moons
from regionscope.lab.data.univariate import univariate

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
    "univariate",
]
