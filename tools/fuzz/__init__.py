"""Regions of random small networks, counted by regionscope and by exact arithmetic that shares no code with it."""
