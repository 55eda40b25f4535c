"""Send: one GPU hands a tensor to another, as a pipeline stage does to the next."""

from __future__ import annotations

from servetwin.specs import Calibration, Gpu
from servetwin.specs.span import Span


class Send:
    """Latency of NCCL's send and receive between two GPUs.

    ``latency + bytes / (efficiency · bandwidth)``. In one domain latency and efficiency are ``link_latency`` and
    ``send_efficiency``; across domains ``across_latency`` on top of that of the links, and ``across_efficiency``:
    the bytes go one way, so the NIC does not share its rate between sending and receiving.

    Source: send and receive between two GPUs of DGX A100 and DGX H100, github.com/microsoft/vidur (docs, Parallelism).

    Args:
        gpu: its links.
        calibration: latencies and efficiencies.
        span: how the two GPUs lie (only whether in one domain, and the wires); one domain if not given.
    """

    def __init__(self, gpu: Gpu, calibration: Calibration, span: Span | None = None) -> None:
        across = span is not None and span.domains > 1
        if span is not None and across:
            self._wire = span.across_bytes_per_s
            self._latency_s = span.across_latency_s + calibration.across_latency_s
            self._rate = calibration.across_efficiency * self._wire
            return
        self._wire = gpu.link_bytes_per_s if span is None else span.inside_bytes_per_s
        self._latency_s = calibration.link_latency_s
        self._rate = calibration.send_efficiency * self._wire

    def seconds(self, message_bytes: float, share: float = 1.0) -> float:
        """Latency [s] of handing over ``message_bytes`` [B] with ``share`` of the links' bandwidth."""
        return self._latency_s + message_bytes / (share * self._rate) if message_bytes > 0 else 0.0

    def bound(self, message_bytes: float) -> float:
        """The least time [s] that the wire allows for ``message_bytes`` [B]."""
        return message_bytes / self._wire
