"""How KV cache is handed over.

Three ways of moving it (``Rules.mode``):

* ``pull``: when the prefill has ended, the request goes to the decoding replica, which fetches the KV cache once it has
  blocks for it. Source: vLLM's ``NixlConnector``.
* ``stream``: the request goes to both at once; each layer of a step is sent when it is computed, as soon as the
  decoding replica has blocks. Source: Splitwise (ISCA 2024), section 4.3; SGLang reserves as early.
* ``push``: each layer is sent into the CPU memory of the decoding server when it is computed, whether there are blocks
  or not; when all of it is there the request goes to the decoding replica, which loads it once it has blocks.
  Source: Mooncake (FAST 2025), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

PULL, STREAM, PUSH = "pull", "stream", "push"
RECOMPUTE, FAIL = "recompute", "fail"


@dataclass(frozen=True, slots=True)
class Rules:
    """How KV cache is handed over.

    Attributes:
        mode: ``pull``, ``stream`` or ``push``.
        regenerates: whether the decoding replica computes the first token again, from the last token of the prompt.
        decode_first: whether the decoding replica is chosen before the prefilling one.
        setup_ps: from the decision to send to the first byte [ps].
        block_ps: the same again for each block [ps].
        block_size: tokens of the blocks in which the KV cache is moved.
        lease_ps: for how long a prefilling replica keeps blocks that nobody fetches [ps].
        on_failure: ``recompute`` or ``fail``.
        retries: how often a failed transfer is begun again.
        retry_ps: how long after its failure [ps].
        layers: layers of the model, each of which is sent when it is computed unless ``pull``.
    """

    mode: str
    regenerates: bool
    decode_first: bool
    setup_ps: int
    block_ps: int
    block_size: int
    lease_ps: int
    on_failure: str
    retries: int
    retry_ps: int
    layers: int
