"""Collectives between the GPUs of a replica, inside a link domain and across several."""

from servetwin.physics.collectives.all_reduce import AllReduce
from servetwin.physics.collectives.bounds import ring_time, wire_bound
from servetwin.physics.collectives.gather import AllGather
from servetwin.physics.collectives.groups import (
    context_groups,
    context_span,
    stage_pairs,
    stage_span,
    tensor_groups,
    tensor_span,
)
from servetwin.physics.collectives.send import Send

__all__ = [
    "AllGather", "AllReduce", "Send", "context_groups", "context_span", "ring_time", "stage_pairs", "stage_span",
    "tensor_groups", "tensor_span", "wire_bound",
]  # fmt: skip
