"""The layers of a model in their order, as Hugging Face configurations describe them."""

from __future__ import annotations

from servetwin.catalog.fields import Fields
from servetwin.catalog.hf_attention import attention, grouped_attention
from servetwin.catalog.hf_feed_forward import check_experts, dense, experts, feed_forward
from servetwin.catalog.hf_state import state_layer
from servetwin.specs import Attention, DenseMlp, MoeMlp

MOST_LAYERS = 1_000
"""More layers than this are a slip of the keyboard."""

Block = tuple[Attention, DenseMlp | MoeMlp]


def read_layers(text: Fields, model_type: str, hidden: int) -> list[Block]:
    """Attention and feed-forward block of each layer, in order.

    Raises:
        CatalogError: where a field is missing or wrong, or there are more layers than any model has.
    """
    check_experts(text, model_type)
    if text.has("hybrid_override_pattern"):
        return _from_pattern(text, model_type, hidden)
    count = text.integer("num_hidden_layers")
    _check_count(text, "num_hidden_layers", count)
    return [(attention(text, model_type, i, hidden), feed_forward(text, model_type, i, hidden)) for i in range(count)]


def _check_count(text: Fields, key: str, count: int) -> None:
    if count > MOST_LAYERS:
        raise text.error("no model has so many layers", key, found=f"{count:,}", allowed=f"at most {MOST_LAYERS:,}")


def _from_pattern(text: Fields, model_type: str, hidden: int) -> list[Block]:
    """Layers of Nemotron-H: one letter each for a state (M), attention (*), a dense block (-) or experts (E).

    A block that follows a state or attention is taken as the second half of the same layer.
    """
    pattern = text.text("hybrid_override_pattern")
    _check_count(text, "hybrid_override_pattern", len(pattern))
    none = DenseMlp(0, gated=False)
    layers: list[Block] = []
    for position, letter in enumerate(pattern):
        if letter == "M":
            state = state_layer(text, model_type, position, hidden)
            assert state is not None
            layers.append((state, none))
        elif letter == "*":
            layers.append((grouped_attention(text, model_type, position, hidden), none))
        elif letter in "-E" and layers and layers[-1][1] == none:
            mlp = experts(text, model_type) if letter == "E" else dense(text, model_type, hidden)
            layers[-1] = (layers[-1][0], mlp)
        else:
            raise text.error(
                "this order of layers is not modelled", "hybrid_override_pattern", found=pattern,
                allowed="M, * and after each of them at most one - or E",
            )  # fmt: skip
    return layers
