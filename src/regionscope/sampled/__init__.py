"""Labels of any classifier on slices drawn from data: grids, connected components, refinement.

- ``drawn_slices``: slices through random inputs, in random directions, from the origin.
- ``embedding_slice``: slices between the embeddings of token sequences.
- ``labels`` and ``label_points``: any classifier as a function from points to integer labels,
  in half precision where that gives the same labels.
- ``lattice``, ``grid`` and ``components``: points on a slice, and the pieces of one label among them.
- ``refinement``: merging pieces that a grid splits, and splitting those that it joins.

``measures.region_count`` puts these together.
"""

from regionscope.sampled.drawn_slices import GivenSlices, Hulls, LinesFromOrigin, RandomDirections, SliceSampler
from regionscope.sampled.embedding_slice import EmbeddingSlice, embedding_slice
from regionscope.sampled.grid import LabelMap, label_maps
from regionscope.sampled.labels import open_labeller

__all__ = [
    "EmbeddingSlice",
    "GivenSlices",
    "Hulls",
    "LabelMap",
    "LinesFromOrigin",
    "RandomDirections",
    "SliceSampler",
    "embedding_slice",
    "label_maps",
    "open_labeller",
]
