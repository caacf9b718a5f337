"""Li et al. 2025, "Understanding Nonlinear Implicit Bias via Region Counts in Input Space"."""
