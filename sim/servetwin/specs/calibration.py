"""The constants that data sheets do not give: how near to the peak kernels come, and what an engine adds."""

from __future__ import annotations

from dataclasses import dataclass

SAMPLING = ("greedy", "top-p")


@dataclass(frozen=True, slots=True)
class KernelConstants:
    """How kernels run on one GPU. Efficiencies are fractions of the data sheet's peak, in (0, 1].

    Attributes:
        gemm_memory: share of HBM bandwidth that a matrix product reaches.
        gemm_compute: share of peak arithmetic that a matrix product reaches.
        gemm_launch_s: constant per matrix product [s].
        kv_memory: share of HBM bandwidth that reading the KV cache reaches.
        attention_per_request_s: attention, per decoding request and layer [s].
        layer_s: constant per layer: norms, rotary embedding, activation, attention launch [s].
        moe_memory: share of HBM bandwidth that reading experts reaches.
        moe_launch_s: constant per mixture layer: routing, sorting, launches [s].
        mixed_query_tile: rows of the tile in which attention computes each head of a decoding request in a step
            with a prefill chunk; 1 where the kernels pack the heads of a query group into one tile.
        sort: time of sorting logits, as a multiple of ``Calibration.sampling_s``, in which H100 is 1.
        quantise_gemm_s: quantising the activations of one 8-bit matrix product [s].
        quantise_moe_s: the same for the experts of one layer [s].
        moe_4bit_memory: share of HBM bandwidth that reading 4-bit experts reaches.
        moe_4bit_math: data type in which 4-bit experts are multiplied: bf16, fp8 or fp4.
    """

    gemm_memory: float
    gemm_compute: float
    gemm_launch_s: float
    kv_memory: float
    attention_per_request_s: float
    layer_s: float
    moe_memory: float
    moe_launch_s: float
    mixed_query_tile: float
    sort: float
    quantise_gemm_s: float
    quantise_moe_s: float
    moe_4bit_memory: float
    moe_4bit_math: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """The constants of one family of engines. None depends on the model.

    Attributes:
        name: its name in the catalogue.
        engine: the engine it was measured on, with version.
        roofline_power: p of ``(memory^p + compute^p)^(1/p)``.
        prefill_attention: share of peak arithmetic that prefill attention reaches.
        tile_attention: the same where a tile of rows holds a single query; see ``mixed_query_tile``.
        element_wise: share of HBM bandwidth of norms, activations and residual additions.
        moe_compute: share of ``gemm_compute`` that grouped matrix products of experts reach.
        eight_bit_compute: share of ``gemm_compute`` that matrix products of 8-bit weights reach.
        expert_overlap: by how much routing is more alike than chance; see ``physics.moe``.
        link_efficiency: share of the link's bandwidth, where no all-reduce was measured.
        link_latency_s: all-reduce latency per doubling of ranks, where none was measured [s].
        step_s: what the GPU waits for the CPU in each step [s].
        mixed_step_s: what a step with a prefill chunk costs on top [s].
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
    roofline_power: float
    prefill_attention: float
    tile_attention: float
    element_wise: float
    moe_compute: float
    eight_bit_compute: float
    expert_overlap: float
    link_efficiency: float
    link_latency_s: float
    step_s: float
    mixed_step_s: float
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
