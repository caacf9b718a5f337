"""The names of all chapters. ``regionscope`` imports this module when you first use one of those it offers."""

import sys

from regionscope.certificate import *
from regionscope.complexity import *
from regionscope.errors import *
from regionscope.exact import *
from regionscope.geometry import *
from regionscope.measures import *
from regionscope.monitor import *
from regionscope.network import *
from regionscope.network.onnx import *
from regionscope.points import *
from regionscope.provenance import show_versions
from regionscope.sampled import *
from regionscope.smooth import *
from regionscope.tolerance import Tolerance
from regionscope.types import Estimate, Readable, Stats, Status
from regionscope.verification import *

if "IPython" in sys.modules:  # in a notebook, results show a table and a figure
    import regionscope.plot
