"""An ``nn.Module`` read as a piecewise-affine program: affine stretches joined by folds. Never sees a polygon.

Start at ``trace``. To accept a new activation or layer, add its rule to ``rules/``.

- Other libraries: ``estimator`` reads scikit-learn, ``torchscript`` scripts, ``policy`` Stable-Baselines3.
- Reading: ``private_copy`` of the module, ``reader`` follows its forward with torch.fx, ``proxy`` stands for its
  tensors, ``record`` holds the operations that the rules record,
  ``refuse`` the sentences for what is not piecewise affine. ``exported``: programs of torch.export.
  ``second_reading``: the program, and whether a forward gives the same one each time. ``hooks``: whether hooks change
  values.
- The result: a ``program`` of ``operations``, which say where it folds; ``pattern`` and ``decision`` use it.
- Sequence models: ``token_ids`` reads ids and masks, ``embedded`` makes a model a function of embeddings,
  ``block`` reads one MLP block of it.
- ``output``: one of several outputs of a model, with its further arguments fixed. ``onnx/``: networks from files.
- ``call/``: running a user's model without side effects.
"""

from regionscope.network.block import Block, block
from regionscope.network.call.draws import Draws
from regionscope.network.call.precision import full_precision
from regionscope.network.call.untouched import device_and_dtype, same_modes, untouched
from regionscope.network.call.wrappers import unwrapped
from regionscope.network.decision import with_decision, with_level
from regionscope.network.embedded import Embedded, EmbeddedModel, embedded
from regionscope.network.operations import Compared, Groups, Largest, Maxima, Pieces, Thresholds
from regionscope.network.output import select_output
from regionscope.network.pattern import patterns
from regionscope.network.private_copy import runnable_copy
from regionscope.network.program import Fold, Program, Values
from regionscope.network.trace import retrace, trace, trace_smooth

__all__ = [
    "Block",
    "Compared",
    "Draws",
    "Embedded",
    "EmbeddedModel",
    "Fold",
    "Groups",
    "Largest",
    "Maxima",
    "Pieces",
    "Program",
    "Thresholds",
    "Values",
    "block",
    "device_and_dtype",
    "embedded",
    "full_precision",
    "patterns",
    "retrace",
    "runnable_copy",
    "same_modes",
    "select_output",
    "trace",
    "trace_smooth",
    "untouched",
    "unwrapped",
    "with_decision",
    "with_level",
]
