"""regionscope: look at a network on a slice of its input space, partition the slice, measure the pieces."""
