"""What the simulated things are: models, GPUs, links, nodes, storage, and the constants of an engine.

Frozen data with its formulas as methods; nothing here knows where the figures come from.
"""

from servetwin.specs.attention import Attention, GroupedAttention, LatentAttention, StateAttention
from servetwin.specs.calibration import Calibration, KernelConstants
from servetwin.specs.curves import AttentionCurve, ExpertsCurve, ProductCurve
from servetwin.specs.dtypes import bytes_per_value
from servetwin.specs.hardware import Gpu, Link, Node, Source, StorageTier
from servetwin.specs.layers import DenseMlp, Layer, MoeMlp, padded_vocab
from servetwin.specs.model import ModelSpec
from servetwin.specs.span import Span
from servetwin.specs.topology import NetworkSpec, NodeGroup

__all__ = [
    "Attention",
    "AttentionCurve",
    "Calibration",
    "DenseMlp",
    "ExpertsCurve",
    "Gpu",
    "GroupedAttention",
    "KernelConstants",
    "LatentAttention",
    "Layer",
    "Link",
    "ModelSpec",
    "MoeMlp",
    "NetworkSpec",
    "Node",
    "NodeGroup",
    "ProductCurve",
    "Source",
    "Span",
    "StateAttention",
    "StorageTier",
    "bytes_per_value",
    "padded_vocab",
]
