"""How near to the data sheet one class of kernels comes on one GPU: a few numbers each, fitted to measured kernels.

``servetwin.studies.calibration`` fits them and ``servetwin.physics`` prices with them. Shares are of the data sheet's
peak, in (0, 1], so that no kernel beats it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProductCurve:
    """Matrix products with weights of one data type.

    Attributes:
        memory: share of HBM bandwidth.
        compute: share of peak arithmetic in the data type.
        launch_s: constant per product [s].
        quantise: share of HBM bandwidth at which the activations are quantised before the product; None where they
            are not.
    """

    memory: float
    compute: float
    launch_s: float
    quantise: float | None = None


@dataclass(frozen=True, slots=True)
class ExpertsCurve:
    """The routed experts of one layer, with weights of one data type.

    Attributes:
        memory: share of HBM bandwidth at which experts are read.
        compute: share of peak arithmetic in the data type that they are multiplied in.
        launch_s: constant per layer: routing, sorting, launches [s].
        routing: share of HBM bandwidth at which the ``top_k`` copies of each token are moved to their experts; below
            the real bandwidth, for they are moved several times.
    """

    memory: float
    compute: float
    launch_s: float
    routing: float


@dataclass(frozen=True, slots=True)
class AttentionCurve:
    """Attention over a cache of one data type.

    Attributes:
        memory: share of HBM bandwidth at which the cache is read.
        launch_s: constant per layer [s].
        per_head_s: per decoding request and query head of a rank, in each layer [s].
        compute: share of peak bf16 arithmetic of prefill chunks.
        ramp_tokens: tokens of context that each row of a chunk costs on top of those that it attends: masked parts of
            tiles, and the start and end of the pipeline [tokens].
    """

    memory: float
    launch_s: float
    per_head_s: float
    compute: float
    ramp_tokens: float
