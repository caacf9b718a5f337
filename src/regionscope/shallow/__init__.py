"""The two theory settings as pure computations.

Univariate gradient flow: I. Safran, G. Vardi and J. D. Lee, "On the effective number of linear regions in shallow
univariate ReLU networks: convergence guarantees and implicit bias", NeurIPS 2022. Two layers: Y. Li et al. 2025,
section 6.
"""

from regionscope.shallow.examples import Example1, WidthRow, example_1, success_vs_width
from regionscope.shallow.flow import Flow, conserved_drift, gradient_flow, gradient_flows
from regionscope.shallow.kkt import KKT, kkt_residual
from regionscope.shallow.losses import log_threshold
from regionscope.shallow.network import Network, initial_network, initial_theta
from regionscope.shallow.pieces import (
    Breakpoints,
    EffectiveRegions,
    breakpoints,
    effective_regions,
    minimum_regions,
    n_linear_regions,
    reduced,
    sign_pieces,
    unit_shares,
)
from regionscope.shallow.regions_vs_teacher_width import TeacherWidthRow, regions_vs_teacher_width
from regionscope.shallow.report import FlowRow, classification_error, flow_table, population_loss
from regionscope.shallow.state import ENDS, FlowOptions, Flows
from regionscope.shallow.teachers import (
    Density,
    Sample,
    Teacher,
    alternating_teacher,
    random_teacher,
    sample,
    teacher_from_switches,
)
from regionscope.shallow.theorems import (
    Requirements,
    largest_sigma_o,
    population_loss_bound,
    region_bound,
    theorem_2_3,
    theorem_3_1,
)
from regionscope.shallow.two_layer import (
    TwoLayer,
    active_units,
    dense_sharpness,
    descend,
    initial_two_layer,
    region_counts,
    sharpness,
)
from regionscope.shallow.two_layer_bounds import BoundRow, Inequality, check_bounds, train_and_check
from regionscope.shallow.two_layer_rates import (
    RateRow,
    Trend,
    alternating_line,
    random_sphere,
    rate_trend,
    regions_vs_learning_rate,
)

__all__ = [
    "ENDS",
    "KKT",
    "BoundRow",
    "Breakpoints",
    "Density",
    "EffectiveRegions",
    "Example1",
    "Flow",
    "FlowOptions",
    "FlowRow",
    "Flows",
    "Inequality",
    "Network",
    "RateRow",
    "Requirements",
    "Sample",
    "Teacher",
    "TeacherWidthRow",
    "Trend",
    "TwoLayer",
    "WidthRow",
    "active_units",
    "alternating_line",
    "alternating_teacher",
    "breakpoints",
    "check_bounds",
    "classification_error",
    "conserved_drift",
    "dense_sharpness",
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
    "log_threshold",
    "minimum_regions",
    "n_linear_regions",
    "population_loss",
    "population_loss_bound",
    "random_sphere",
    "random_teacher",
    "rate_trend",
    "reduced",
    "region_bound",
    "region_counts",
    "regions_vs_learning_rate",
    "regions_vs_teacher_width",
    "sample",
    "sharpness",
    "sign_pieces",
    "success_vs_width",
    "teacher_from_switches",
    "theorem_2_3",
    "theorem_3_1",
    "train_and_check",
    "unit_shares",
]
