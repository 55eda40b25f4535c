"""How KV cache gets from the replicas that prefill to those that decode, as a scenario describes it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from servetwin.scenario.part import Part
from servetwin.units import MAX_S

INSTANT = "instant"
"""A link that takes no time: what disaggregation would gain if the hand-over were free."""

FIRST_TOKEN: dict[str, Literal["prefill", "decode"]] = {"vllm": "decode", "sglang": "prefill", "trtllm": "prefill"}
"""Which side yields the first token, by family. Source: vLLM ``v1/core/sched/scheduler.py``
(``_update_waiting_for_remote_kv``: the last token of the prompt is computed again); SGLang ``srt/disaggregation``
(the token travels with the metadata); TensorRT-LLM's documentation of disaggregated serving."""

SETUP_MS = 0.37
"""From the decision to send to the first byte [ms]. Source: nine transfers of 21 MB to 4.8 GB with the Mooncake
connector of vLLM between two servers of H800 take that and what 0.73 of the line needs, as near as any two constants
come, github.com/kvcache-ai/Mooncake, docs/source/performance/vllm/vllm-v1-pd-performance.md."""

LEASE_S = 480.0
"""``VLLM_NIXL_ABORT_REQUEST_TIMEOUT`` of vLLM. Later versions have a lease of 30 s, which a decoding side that lives
renews for as long as the request waits there."""


class TransferOptions(Part):
    """The hand-over of KV cache. What is left out is as the engine does it.

    Attributes:
        mode: ``pull``: the decoding replica fetches it when the prefill has ended and it has blocks for it;
            ``stream``: it has blocks from the beginning, and each layer is sent when it is computed; ``push``: each
            layer is sent into the CPU memory of its server, from where it is loaded.
        first_token: who yields the first token; with ``decode`` the last token of the prompt is computed again there.
        link: a link profile that stands for the whole way, one port for each GPU and direction; ``instant`` takes no
            time. By default the links of the topology.
        setup_ms: from the decision to send to the first byte [ms].
        block_us: the same again for each block [µs].
        lease_s: for how long a prefilling replica keeps blocks that nobody fetches [s].
        failure_rate: share of the transfers that turn out to have failed when all was sent.
        retries: how often a failed transfer is begun again.
        retry_after_ms: how long after its failure [ms].
        on_failure: what follows when it is not: ``recompute`` on the decoding replica, or ``fail`` the request.
    """

    mode: Literal["pull", "stream", "push"] = "pull"
    first_token: Literal["prefill", "decode"] | None = None
    link: str | None = None
    setup_ms: float | None = Field(default=None, ge=0, le=1e6)
    block_us: float = Field(default=0.0, ge=0, le=1e6)
    lease_s: float = Field(default=LEASE_S, gt=0, le=MAX_S)
    failure_rate: float = Field(default=0.0, ge=0, le=1)
    retries: int = Field(default=0, ge=0, le=1000)
    retry_after_ms: float = Field(default=0.0, ge=0, le=1e9)
    on_failure: Literal["recompute", "fail"] = "recompute"


def filled(options: TransferOptions | None, engine: str) -> TransferOptions:
    """The options with everything that they leave open.

    Args:
        options: what the scenario says.
        engine: the family of the engine.
    """
    options = options or TransferOptions()
    setup_ms = options.setup_ms
    if setup_ms is None:
        setup_ms = 0.0 if options.link == INSTANT else SETUP_MS
    return options.model_copy(update={"first_token": options.first_token or FIRST_TOKEN[engine], "setup_ms": setup_ms})
