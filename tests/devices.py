"""What a test that needs a GPU says of itself; machines without one skip it and say why."""

from __future__ import annotations

import pytest
import torch

__all__ = ["DEVICES", "needs_cuda"]

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]
