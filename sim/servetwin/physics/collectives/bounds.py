"""The least times that the wires allow."""

from __future__ import annotations

from servetwin.specs.span import Span


def wire_bound(message_bytes: float, gpus: int, link_bytes_per_s: float) -> float:
    """The least time of an all-reduce, even where the switch adds up.

    ``bytes / bandwidth``: each GPU sends its own tensor once, and receives the sum once.

    Args:
        message_bytes: size of the tensor on each GPU [B].
        gpus: number of GPUs.
        link_bytes_per_s: bandwidth of a GPU's links, one direction [B/s].

    Returns:
        time [s].
    """
    return message_bytes / link_bytes_per_s if gpus > 1 else 0.0


def ring_time(message_bytes: float, gpus: int, link_bytes_per_s: float) -> float:
    """The least time of an all-reduce in which the GPUs add up.

    ``2 (n − 1)/n · bytes / bandwidth``. Reduction in the NVLink switch beats it: eight H100 reduce 1 GiB in
    96 % of it.

    Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
        J. Parallel Distrib. Comput. 69(2), 2009.

    Args:
        message_bytes: size of the tensor on each GPU [B].
        gpus: number of GPUs.
        link_bytes_per_s: bandwidth of a GPU's links, one direction [B/s].

    Returns:
        time [s].
    """
    return 2.0 * (gpus - 1) / gpus * message_bytes / link_bytes_per_s


def gather_bound(message_bytes: float, gpus: int, link_bytes_per_s: float) -> float:
    """The least time of an all-gather, or of a reduce-scatter, of as many bytes.

    ``(n − 1)/n · bytes / bandwidth``: each GPU receives what the others hold.

    Args:
        message_bytes: what every GPU holds in the end [B].
        gpus: number of GPUs.
        link_bytes_per_s: bandwidth of a GPU's links, one direction [B/s].

    Returns:
        time [s].
    """
    return (gpus - 1) / gpus * message_bytes / link_bytes_per_s


def reduce_bound(message_bytes: float, span: Span) -> float:
    """The least time of an all-reduce over a span: every domain sends its own sum once through its NICs.

    Args:
        message_bytes: size of the tensor on each GPU [B].
        span: how the GPUs lie.

    Returns:
        time [s].
    """
    if span.domains == 1:
        return wire_bound(message_bytes, span.gpus, span.inside_bytes_per_s)
    # Of a domain with a single GPU, its NIC is the only wire; others also pass their tensors on inside.
    inside_s = wire_bound(message_bytes, max(span.per_domain), span.inside_bytes_per_s + span.across_bytes_per_s)
    return max(inside_s, message_bytes / (min(span.per_domain) * span.across_bytes_per_s))


def gathered_bound(message_bytes: float, span: Span) -> float:
    """The least time of an all-gather over a span: every domain receives through its NICs what the others hold.

    Args:
        message_bytes: what every GPU holds in the end [B].
        span: how the GPUs lie.

    Returns:
        time [s].
    """
    if span.domains == 1:
        return gather_bound(message_bytes, span.gpus, span.inside_bytes_per_s)
    fewest = min(span.per_domain)
    everywhere_s = gather_bound(message_bytes, span.gpus, span.inside_bytes_per_s + span.across_bytes_per_s)
    foreign = (span.gpus - fewest) / span.gpus * message_bytes
    return max(everywhere_s, foreign / (fewest * span.across_bytes_per_s))
