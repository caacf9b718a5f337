"""Safran, Vardi & Lee 2022, On the Effective Number of Linear Regions in Shallow Univariate ReLU Networks."""
