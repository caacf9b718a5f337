"""Qi & Wei 2023, The Evolution of the Interplay between Input Distributions and Linear Regions in Networks."""
