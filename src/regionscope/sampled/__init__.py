"""Labels of any classifier on slices drawn from data: grids, connected components, refinement."""
