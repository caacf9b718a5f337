"""The two theory settings as pure computations.

Univariate gradient flow: I. Safran, G. Vardi and J. D. Lee, "On the effective number of linear regions in shallow
univariate ReLU networks: convergence guarantees and implicit bias", NeurIPS 2022. Two layers: J. Li et al. 2025,
section 6.

- Data and networks: ``teachers`` and ``network``.
- Gradient flow: ``flow`` (``gradient_flow`` for one network, ``gradient_flows`` for many) and ``report``.
- What the end of a flow looks like: ``pieces`` (linear regions) and ``kkt``.
- Theorems and examples of the paper: ``theorems``, ``examples``.
- Two layers: ``two_layer``, ``two_layer_rates``.

Rows of tables and smaller parts are imported from these modules.
"""

from regionscope_lab.shallow.examples import example_1, success_vs_width
from regionscope_lab.shallow.flow import Flow, gradient_flow, gradient_flows
from regionscope_lab.shallow.kkt import KKT, kkt_residual
from regionscope_lab.shallow.network import Network, initial_network, initial_theta
from regionscope_lab.shallow.pieces import breakpoints, effective_regions, minimum_regions, n_linear_regions
from regionscope_lab.shallow.report import classification_error, flow_table
from regionscope_lab.shallow.state import FlowOptions
from regionscope_lab.shallow.teachers import (
    Sample,
    Teacher,
    alternating_teacher,
    random_teacher,
    sample,
    teacher_from_switches,
)
from regionscope_lab.shallow.theorems import largest_sigma_o, region_bound, theorem_2_3, theorem_3_1
from regionscope_lab.shallow.two_layer import TwoLayer, descend, initial_two_layer, sharpness
from regionscope_lab.shallow.two_layer_rates import (
    alternating_line,
    check_bounds,
    random_sphere,
    regions_vs_learning_rate,
    train_and_check,
)

__all__ = [
    "KKT",
    "Flow",
    "FlowOptions",
    "Network",
    "Sample",
    "Teacher",
    "TwoLayer",
    "alternating_line",
    "alternating_teacher",
    "breakpoints",
    "check_bounds",
    "classification_error",
    "descend",
    "effective_regions",
    "example_1",
    "flow_table",
    "gradient_flow",
    "gradient_flows",
    "initial_network",
    "initial_theta",
    "initial_two_layer",
    "kkt_residual",
    "largest_sigma_o",
    "minimum_regions",
    "n_linear_regions",
    "random_sphere",
    "random_teacher",
    "region_bound",
    "regions_vs_learning_rate",
    "sample",
    "sharpness",
    "success_vs_width",
    "teacher_from_switches",
    "theorem_2_3",
    "theorem_3_1",
    "train_and_check",
]
