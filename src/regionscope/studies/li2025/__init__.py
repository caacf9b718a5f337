"""Li et al. 2025, "Understanding Nonlinear Implicit Bias via Region Counts in Input Space"."""

from __future__ import annotations

from regionscope.studies.li2025 import (
    augmentation,
    cifar10,
    consistency,
    counting,
    evolution,
    exact,
    hyperparameters,
    predictors,
    reparametrisation,
    scaled,
    theory,
)
from regionscope.studies.study import Study

__all__ = ["STUDIES"]

STUDIES = (
    Study(
        name="li2025-figure2",
        source="Figure 2",
        claim="Norm and margin hardly correlate with the generalisation gap over the settings of Table 1; the region "
        "count does.",
        experiments=predictors.runs_of_primary,
        analyse=predictors.figure2,
        scaled=scaled.PRIMARY,
    ),
    Study(
        name="li2025-figure4",
        source="Figure 4",
        claim="Over the settings of Table 1 region count and generalisation gap correlate with 0.98 for each network, "
        "and with 0.93 over three networks.",
        experiments=predictors.runs_of_networks,
        analyse=predictors.figure4,
        scaled=scaled.NETWORKS,
    ),
    Study(
        name="li2025-table2",
        source="Table 2",
        claim="The correlation holds for nine networks, three data sets and hulls of dimension 1 to 5.",
        experiments=consistency.runs_of_table2,
        analyse=consistency.table2,
        scaled=scaled.DATA_SETS,
    ),
    Study(
        name="li2025-figure8",
        source="Figure 8",
        claim="For every network the region count correlates highly, and negatively, with the test accuracy.",
        experiments=predictors.runs_of_figure8,
        analyse=predictors.figure8,
        scaled=scaled.NETWORKS,
    ),
    Study(
        name="li2025-figure5",
        source="Figure 5",
        claim="A larger learning rate and a smaller batch size reduce the region count.",
        experiments=predictors.runs_of_networks,
        analyse=hyperparameters.figure5,
        scaled=scaled.NETWORKS,
    ),
    Study(
        name="li2025-augmentation",
        source="Figures 6, 7 and 9",
        claim="Mixup, and random crops with flips, reduce the region count and improve the test accuracy, crops and "
        "flips more; the correlation with the gap remains high.",
        experiments=augmentation.runs_of_augmentation,
        analyse=augmentation.augmentation,
        scaled=scaled.AUGMENTED,
    ),
    Study(
        name="li2025-table3",
        source="Table 3",
        claim="The correlation of region count and gap is low at first and rises during training.",
        experiments=predictors.runs_of_primary,
        analyse=evolution.table3,
        scaled=scaled.PRIMARY,
    ),
    Study(
        name="li2025-table4",
        source="Table 4",
        claim="200 points on a line and 30 x 30 points on a plane are enough to count regions.",
        experiments=counting.runs_of_tables4_and_5,
        analyse=counting.table4,
        scaled=scaled.COUNTED,
    ),
    Study(
        name="li2025-table5",
        source="Table 5",
        claim="The mean over 100 random slices is reliable.",
        experiments=counting.runs_of_tables4_and_5,
        analyse=counting.table5,
        scaled=scaled.COUNTED,
    ),
    Study(
        name="li2025-table6",
        source="Table 6",
        claim="Lines that reach beyond the two points cross more regions, and correlate with the gap as well.",
        experiments=predictors.runs_of_primary,
        analyse=counting.table6,
        scaled=scaled.PRIMARY,
    ),
    Study(
        name="li2025-table7",
        source="Table 7",
        claim="The correlation holds for SGD, Adam and Adagrad.",
        experiments=consistency.runs_of_table7,
        analyse=consistency.table7,
        scaled=scaled.OPTIMISERS,
    ),
    Study(
        name="li2025-table8",
        source="Table 8",
        claim="The correlation holds for lines between training points, between test points and along random "
        "directions.",
        experiments=predictors.runs_of_figure8,
        analyse=consistency.table8,
        scaled=scaled.NETWORKS,
    ),
    Study(
        name="li2025-section3",
        source="Section 3: reparametrisation",
        claim="Weights can be rescaled without changing a predicted label: norm, margin and sharpness change, the "
        "region count does not.",
        experiments=reparametrisation.runs_of_section3,
        analyse=reparametrisation.section3,
        scaled=scaled.REPARAMETRISED,
    ),
    Study(
        name="li2025-section6",
        source="Section 6.2: Lemmas 6.4 and 6.5, Theorem 6.3",
        claim="Region counts are bounded by active neurons, those by the sharpness, and so by N / (r² rate) at the "
        "edge of stability.",
        analyse=theory.section6,
        scaled=scaled.THEORY,
    ),
    Study(
        name="li2025-cifar10",
        source="Figures 2, 4 and 5, Tables 2, 3, 6 and 8, for ResNet18 on CIFAR-10",
        claim="ResNet18 on CIFAR-10: over the 27 settings of Table 1 region count and gap correlate with 0.98 (norm "
        "and margin do not), also in dimensions 2 to 5 and on other lines; the correlation rises during training, and "
        "larger learning rates and smaller batches give fewer regions.",
        experiments=cifar10.runs_of_cifar10,
        analyse=cifar10.cifar10,
        scaled=scaled.CIFAR10,
    ),
    Study(
        name="li2025-cifar10-networks",
        source="Figures 4, 5 and 8, Table 8, for four more networks on CIFAR-10",
        claim="EfficientNetB0, SENet18, MobileNetV2 and VGG19 on CIFAR-10: region count and gap correlate with 0.94 to "
        "0.98.",
        experiments=cifar10.runs_of_other_networks,
        analyse=cifar10.other_networks,
        scaled=scaled.OTHER_NETWORKS,
    ),
    Study(
        name="li2025-exact",
        source="Table 4 and Definition 4.3, counted exactly",
        claim="A grid of 200 points on a line finds the regions of ResNet18.",
        experiments=exact.runs_of_exact,
        analyse=exact.exact,
        scaled=scaled.EXACT,
    ),
)
