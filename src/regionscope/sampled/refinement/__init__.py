"""Merging regions that a grid splits, and splitting those that it joins."""
