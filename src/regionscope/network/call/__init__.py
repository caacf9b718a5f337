"""Running a user's model without side effects, for measures that only need its outputs.

- ``untouched``: a private copy in eval mode, without gradients. ``precision``: full float32 meanwhile, a setting
  that threads share.
- ``draws``: random numbers that this thread draws.
- ``forward``: one call with a clear error, and the memory that one more input takes.
- ``determinism``: whether an input has one answer, whatever else is in the batch. ``wrappers``: the network inside
  ``torch.compile`` and data-parallel wrappers.
"""
