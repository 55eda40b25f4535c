"""The parts of a decoder layer, and how large they are.

Every size is in parameters (numbers of weights). A *part* is a group of weights that is stored in one precision:

========= ================================================================================
attention query, key, value and output projections (and the low-rank ones of latent attention, the indexer of sparse
          attention, the input and output projections of constant-state layers)
dense     the matrices of a dense feed-forward block
experts   the matrices of the routed experts
shared    the matrices of the experts that see every token
router    the matrix that chooses the experts; never quantised
========= ================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

from servetwin.specs.attention import Attention

QUANTISABLE = ("attention", "dense", "experts", "shared")


def padded_vocab(vocab: int, tensor: int) -> int:
    """Rows of the vocabulary matrices on one of ``tensor`` ranks (the last rank is padded)."""
    return -(-vocab // tensor)


@dataclass(frozen=True, slots=True)
class DenseMlp:
    """A dense feed-forward block.

    Attributes:
        intermediate: its inner width; 0 = the layer has no feed-forward block.
        gated: three matrices (SwiGLU) instead of two.
    """

    intermediate: int
    gated: bool = True

    def parts(self, hidden: int) -> dict[str, int]:
        """Weights by part."""
        return {"dense": self.active_parameters(hidden)}

    def active_parameters(self, hidden: int) -> int:
        """Weights that one token meets."""
        return (3 if self.gated else 2) * hidden * self.intermediate


@dataclass(frozen=True, slots=True)
class MoeMlp:
    """A mixture of experts.

    Attributes:
        experts: routed experts.
        top_k: experts that each token visits.
        intermediate: inner width of one expert.
        shared_intermediate: inner width of all shared experts together; 0 = none.
        gated: three matrices (SwiGLU) per expert instead of two.
    """

    experts: int
    top_k: int
    intermediate: int
    shared_intermediate: int = 0
    gated: bool = True

    def parts(self, hidden: int) -> dict[str, int]:
        """Weights by part."""
        return {
            "experts": self.experts * self.expert_parameters(hidden),
            "shared": self._matrices * hidden * self.shared_intermediate,
            "router": hidden * self.experts,
        }

    @property
    def _matrices(self) -> int:
        return 3 if self.gated else 2

    def expert_parameters(self, hidden: int) -> int:
        """Weights of one expert."""
        return self._matrices * hidden * self.intermediate

    def active_parameters(self, hidden: int) -> int:
        """Weights that one token meets."""
        shared = self._matrices * hidden * self.shared_intermediate
        return self.top_k * self.expert_parameters(hidden) + shared + hidden * self.experts


@dataclass(frozen=True, slots=True)
class Layer:
    """Equal decoder layers.

    Attributes:
        count: how many.
        attention: their attention.
        mlp: their feed-forward block.
    """

    count: int
    attention: Attention
    mlp: DenseMlp | MoeMlp
