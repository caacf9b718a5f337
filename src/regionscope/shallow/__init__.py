"""The two theory settings as pure computations."""
