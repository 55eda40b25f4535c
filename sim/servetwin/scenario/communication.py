"""What the steps of a replica take for what its GPUs exchange, kind by kind, by the formulas that price them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from servetwin.physics.communication import Exchange
from servetwin.physics.hand_off import HAND_OFF
from servetwin.results.communication import CommunicationUse, Times
from servetwin.results.exact import Floats, Ints
from servetwin.scenario.traffic import Exchanges

_Sizes = Callable[[int], Sequence[Exchange]]


def communication_use(replica: int, what: Exchanges) -> CommunicationUse:
    """What the exchanges of a replica take.

    Args:
        replica: its index.
        what: what it exchanges.
    """
    terms = [*what.reduced, *what.gathered, *what.shared]
    kinds = list(dict.fromkeys(exchange.kind for term in terms for exchange in term(1)))

    def times(terms: Sequence[_Sizes], kinds: Sequence[str] | None = kinds) -> Times:
        return partial(_times, terms=terms, kinds=kinds)

    handed_on = (HAND_OFF, times([*what.sent, *what.handed], None)) if what.sent else None
    return CommunicationUse(
        replica, what.tensor * what.context, what.padded, what.context, kinds, times(what.reduced),
        times(what.gathered), times(what.shared), handed_on,
    )  # fmt: skip


def _times(sizes: Ints, terms: Sequence[_Sizes], kinds: Sequence[str] | None) -> Floats:
    """By size, the seconds of each kind, of all terms together; of all kinds in one column where none are named [s]."""
    found: Floats = np.zeros((len(sizes), 1 if kinds is None else len(kinds)))
    for place, size in enumerate(sizes.tolist()):
        for exchange in [exchange for term in terms for exchange in term(size)] if size else ():
            column = 0 if kinds is None else kinds.index(exchange.kind)
            found[place, column] += exchange.calls * exchange.seconds
    return found
