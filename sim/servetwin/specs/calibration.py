"""The constants that data sheets do not give: how near to the peak kernels come, and what an engine adds."""

from __future__ import annotations

from dataclasses import dataclass

from servetwin.specs.curves import AttentionCurve, ExpertsCurve, ProductCurve

SAMPLING = ("greedy", "top-p")

_WIDER = {
    "int8": ("fp8",), "fp8_block": ("fp8",), "nvfp4": ("fp8",), "int4": ("mxfp4",), "mxfp4_mxfp8": ("mxfp4",),
}  # fmt: skip
"""Whose curve stands for a data type that was not measured on a GPU, besides bf16 in the end."""


@dataclass(frozen=True, slots=True)
class KernelConstants:
    """How kernels run on one GPU.

    Attributes:
        products: curves of matrix products by data type of the weights.
        experts: curves of mixtures of experts, likewise.
        attention: curves of attention by data type of the KV cache.
        mixed_query_tile: rows of the tile in which attention computes each head of a decoding request in a step
            with a prefill chunk; 1 where the kernels pack the heads of a query group into one tile.
        sort: time of sorting logits, as a multiple of ``Calibration.sampling_s``, in which H100 is 1.
        quantise_product_s: on top of a product of 8-bit weights in an engine, which finds the scales of the activations
            on the fly; kernels are measured with given scales [s].
        quantise_experts_s: the same for the experts of one layer [s].
    """

    products: tuple[tuple[str, ProductCurve], ...]
    experts: tuple[tuple[str, ExpertsCurve], ...]
    attention: tuple[tuple[str, AttentionCurve], ...]
    mixed_query_tile: float
    sort: float
    quantise_product_s: float
    quantise_experts_s: float

    def product(self, dtype: str) -> ProductCurve:
        """The curve of products with weights of ``dtype``: its own, else that of a wider type down to bf16."""
        known = dict(self.products)
        return next(known[name] for name in (dtype, *_WIDER.get(dtype, ()), "bf16") if name in known)

    def mixture(self, dtype: str) -> ExpertsCurve:
        """The curve of experts with weights of ``dtype``: its own, else that of a wider type down to bf16."""
        known = dict(self.experts)
        return next(known[name] for name in (dtype, *_WIDER.get(dtype, ()), "bf16") if name in known)

    def attending(self, kv_cache: str) -> AttentionCurve:
        """The curve of attention over a cache of type ``kv_cache``, else that of bf16."""
        known = dict(self.attention)
        return known.get(kv_cache) or known["bf16"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The constants of one family of engines. None depends on the model.

    Attributes:
        name: its name in the catalogue.
        engine: the engine it was measured on, with version.
        base: the calibration whose constants stand for those that the file does not say; empty = it says all.
        roofline_power: p of ``(memory^p + compute^p)^(1/p)``.
        tile_attention: share of peak arithmetic of attention where a tile of rows holds a single query; see
            ``mixed_query_tile``.
        element_wise: share of HBM bandwidth of norms, activations and residual additions.
        expert_overlap: by how much routing is more alike than chance; see ``physics.moe``.
        link_efficiency: share of the link's bandwidth, where no all-reduce or all-gather was measured.
        link_latency_s: latency of a collective per doubling of ranks, where none was measured, and of a send [s].
        send_efficiency: share of the link's bandwidth when one GPU sends to another inside a domain.
        across_efficiency: the same between domains: of the bandwidth of the NIC, one direction.
        across_duplex: share of that which is left where a GPU sends and receives at once, as in a ring.
        across_latency_s: what NCCL takes for a step to another domain besides the latency of the links [s].
        step_s: what the GPU waits for the CPU in each step [s].
        request_step_s: the same for each request in the step: scheduling, sampling and bookkeeping loop over them [s].
        mixed_step_s: what a step with a prefill chunk costs on top [s].
        scheduling_s: what an engine waits for its scheduler in each step on top, where scheduling is synchronous: the
            next step is planned when the tokens of this one are known [s].
        scheduling_s_per_request: the same for each request in the step [s].
        eager_s: launching the kernels of a layer from the CPU, where no captured graph runs; the GPU waits for as much
            of it as is longer than what the layers take [s].
        experts_eager_s: the same on top for a layer with routed experts, which has more kernels: choosing experts,
            sorting tokens by them, adding up what they say [s].
        launch: share of the launch constants of products and attention that is left inside an engine's step, where
            captured graphs and dependent launches let a kernel begin while the one before drains.
        experts_launch: share of ``ExpertsCurve.launch_s`` that is left inside an engine's step, where the small kernels
            of a mixture start while others drain.
        router_s: choosing the experts of a layer and sorting its tokens by them, which benchmarks of experts leave out,
            for each expert of the layer [s].
        draft_pass_s: where scheduling is synchronous, the least time between the passes of a drafter, which the CPU
            needs to launch one [s].
        draft_layer_s: the same for each layer of the drafter [s].
        lookup_s: finding drafts in the text, per step [s].
        all_reduce: share of the latency of a measured all-reduce that is left, where engines fuse it with what
            follows; above 1, ranks also wait for each other.
        sampling_s: by sampling mode, per row of logits and 32,000 tokens of vocabulary, on H100 [s].
        front_end_s: from arrival to the waiting queue, per request [s].
        front_end_s_per_token: the same per prompt token: tokenising, hashing [s].
        output_s_per_request: delay of a step's tokens per request in the step: detokenising, streaming [s].
        unavailable_bytes: memory that the driver reports and the runtime does not hand out [B].
        overhead_bytes: what the engine takes besides weights, KV cache and what ``physics.memory`` works out [B].
        collectives_bytes: buffers of the collectives, where ranks share out a model [B].
        kernels: constants by name of the GPU.
        architectures: which GPU's constants stand for another GPU of the same architecture.
        sources: where the figures come from: ``(what, who says so, date)``.
    """

    name: str
    engine: str
    base: str
    roofline_power: float
    tile_attention: float
    element_wise: float
    expert_overlap: float
    link_efficiency: float
    link_latency_s: float
    send_efficiency: float
    across_efficiency: float
    across_duplex: float
    across_latency_s: float
    step_s: float
    request_step_s: float
    mixed_step_s: float
    scheduling_s: float
    scheduling_s_per_request: float
    draft_pass_s: float
    draft_layer_s: float
    lookup_s: float
    eager_s: float
    experts_eager_s: float
    launch: float
    experts_launch: float
    router_s: float
    all_reduce: float
    sampling_s: tuple[tuple[str, float], ...]
    front_end_s: float
    front_end_s_per_token: float
    output_s_per_request: float
    unavailable_bytes: float
    overhead_bytes: float
    collectives_bytes: float
    kernels: tuple[tuple[str, KernelConstants], ...]
    architectures: tuple[tuple[str, str], ...] = ()
    sources: tuple[tuple[str, str, str], ...] = ()

    def kernels_for(self, gpu: str, architecture: str) -> KernelConstants | None:
        """The constants of a GPU by its name, else of its architecture's representative, else None."""
        return dict(self.kernels).get(self.kernels_of(gpu, architecture) or "")

    def kernels_of(self, gpu: str, architecture: str) -> str | None:
        """Whose constants stand for a GPU: its own name, that of its architecture's representative, or None."""
        known = dict(self.kernels)
        representative = dict(self.architectures).get(architecture)
        return next((name for name in (gpu, representative) if name in known), None)

    def sampling(self, mode: str) -> float:
        """Seconds [s] per row of logits and 32,000 tokens of vocabulary for a sampling mode."""
        return dict(self.sampling_s)[mode]
