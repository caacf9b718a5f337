"""Questions that an exact partition answers without sampling.

- Attributions: ``attributions`` (``integrated_gradients``), on ``paths`` that are cut into pieces; ``quadrature_steps``
  compares quadrature rules with the exact integral. ``output_weights`` reads a linear function of the outputs.
- Values: ``extremes``, ``lipschitz``; on lines ``flips`` (``flips`` and ``first_flip``).
- Shape: ``topology`` of decision regions; ``export`` to graphs and pandas.
"""
