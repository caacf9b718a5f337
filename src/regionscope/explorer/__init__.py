"""The explorer: regions over training as one HTML file that works offline. It draws what it is given."""

from regionscope.explorer.write import Inline, Written, explore, inline

__all__ = ["Inline", "Written", "explore", "inline"]
