"""Humayun et al. 2023, Deep Network Partition Density Exhibits Double Descent."""
