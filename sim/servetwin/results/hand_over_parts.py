"""What the time of a request goes to that one replica prefills and another decodes, part by part.

Every part lies between two stamps of the same request, and begins where the one before ends. So the parts add up to
the whole exactly, and nobody has to add up estimates to learn the time to first token: it has a stamp of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from servetwin.errors import InvariantError
from servetwin.request import COMPLETED, FAILED, UNFINISHED
from servetwin.results.exact import Bools, Ints
from servetwin.results.hand_overs import HandOverBlock, HandOverTable
from servetwin.results.requests import RequestTable

Times: TypeAlias = npt.NDArray[Any]
"""Times of requests, all in one unit; below 0 = it did not happen."""

TTFT_PARTS = ("queue", "prefill", "decode_queue", "transfer", "decode_admission", "output")
"""The parts of the time to first token: until the prefill was planned; until it was done; where the decoding replica
yields the first token, then waiting for that replica, for the KV cache, and from its arrival to the token; else only
what it takes to show the token of the prefill."""

GAP_PARTS = ("decode_queue", "transfer", "decode_admission")
"""The parts of the hand-over gap, where the prefilling replica yields the first token: from the end of the prefill to
the plan of the first step that decodes the request. The second token comes with that step."""


class Stamps(NamedTuple):
    """When what happened to some requests.

    Attributes:
        prefill_done: their prefills ended.
        reserved: they had blocks at the decoding replica.
        start: the transfer began.
        end: the KV cache was in those blocks.
        freed: the prefilling replica freed the blocks of a prefill that had ended.
        scheduled: their first steps at the decoding replica were planned.
    """

    prefill_done: Times
    reserved: Times
    start: Times
    end: Times
    freed: Times
    scheduled: Times


class HandOverParts(NamedTuple):
    """Where the time between prefill and decode is cut; no cut is earlier than the one before.

    Attributes:
        prefilled: the prefill was done.
        pushed: the KV cache was in the CPU memory of the decoding server, if it is pushed there; else as before.
        taken: its way into the blocks of the decoding replica began, or that replica went on without it.
        there: it had come, or was given up.
        first: when the transfer began, perhaps while the prefill was running; below 0 = there was none.
        pushes: whether it went into CPU memory first.
    """

    prefilled: Times
    pushed: Times
    taken: Times
    there: Times
    first: Times
    pushes: Bools

    @property
    def queue(self) -> Times:
        """Waiting for the decoding replica: for its front end, its queue and its blocks."""
        result: Times = self.taken - self.pushed
        return result

    @property
    def transfer(self) -> Times:
        """Waiting for the KV cache: what of the transfer was exposed."""
        result: Times = self.pushed - self.prefilled + self.there - self.taken
        return result

    @property
    def hidden(self) -> Times:
        """What of the transfer went on while the prefill was running."""
        begun = np.where(self.first < 0, self.prefilled, self.first)
        result: Times = np.maximum(self.prefilled - begun, 0)
        return result


def cut(stamps: Stamps) -> HandOverParts:
    """Cut the time between prefill and decode.

    A transfer that began before the request had blocks at the decoding replica was pushed into CPU memory, from which
    the prefilling replica's blocks tell the end, and is loaded from there once there are blocks. A transfer that never
    arrived was given up when the prefilling replica freed its blocks.
    """
    prefilled, reserved, start, end, freed, scheduled = stamps
    pushes = (start >= 0) & ((reserved < 0) | (start < reserved))
    pushed = np.where(pushes, np.maximum(prefilled, freed), prefilled)
    begins = np.where(pushes, reserved, start)
    taken = np.maximum(pushed, np.where(begins >= 0, begins, scheduled))
    lost = np.where((start >= 0) & ~pushes, freed, -1)
    there = np.maximum(taken, np.where(end >= 0, end, lost))
    return HandOverParts(prefilled, pushed, taken, there, start, pushes)


def stamps_of(prefill_done: Ints, block: HandOverBlock) -> Stamps:
    """The stamps of some requests [ps]."""
    names = ("reserved_ps", "start_ps", "end_ps", "freed_ps", "scheduled_ps")
    return Stamps(prefill_done, *(block[name] for name in names))


def ttft_parts(
    arrival: Times, scheduled: Times, stamps: Stamps, first_token: Times, split: Bools, by_prefill: bool
) -> dict[str, Times]:
    """The parts of the time to first token, by the names in ``TTFT_PARTS``.

    Args:
        arrival: when the requests arrived.
        scheduled: when their prefills were planned.
        stamps: what happened then; where they were not split only the end of the prefill.
        first_token: when the first tokens were visible.
        split: which of the requests were prefilled and decoded by different replicas.
        by_prefill: whether the prefilling replica yields the first token.
    """
    cuts = cut(stamps)
    # A request that needed no second token never came to the decoding replica.
    awaited = split & (stamps.scheduled >= 0) & (not by_prefill)
    prefilled = stamps.prefill_done
    return {
        "queue": scheduled - arrival,
        "prefill": prefilled - scheduled,
        "decode_queue": np.where(awaited, cuts.queue, 0),
        "transfer": np.where(awaited, cuts.transfer, 0),
        "decode_admission": np.where(awaited, first_token - cuts.there, 0),
        "output": np.where(awaited, 0, first_token - prefilled),
    }


def gap_parts(stamps: Stamps) -> dict[str, Times]:
    """The parts of the gap between prefill and decode, by the names in ``GAP_PARTS``.

    Args:
        stamps: of requests that came to the decoding replica.
    """
    cuts = cut(stamps)
    return dict(zip(GAP_PARTS, (cuts.queue, cuts.transfer, stamps.scheduled - cuts.there), strict=True))


def checked(parts: dict[str, Times], requests: Ints) -> dict[str, Times]:
    """The same parts; none of them is negative.

    Args:
        parts: by name.
        requests: whose they are.

    Raises:
        InvariantError: if one is.
    """
    for name, lengths in parts.items():
        if len(lengths) and lengths.min() < 0:
            worst = int(lengths.argmin())
            raise InvariantError(f"request {requests[worst]}: {name} takes {lengths[worst]} ps")
    return parts


class HandOverTimes:
    """What the transfers of a run took [ps]; what was under way at its end counts up to there.

    Args:
        table: the hand-overs.
        requests: all requests.
        end_ps: when the run ended [ps].

    Attributes:
        cuts: the hand-overs, cut into their parts.
        exposed_ps, hidden_ps: of each hand-over, what of its transfer went on after and during the prefill [ps].
        arrived: which of the transfers brought the KV cache to the decoding replica.
        lost: which of the requests had to do without the KV cache of the prefilling replica.
        failed: of each hand-over, how many attempts to move its KV cache failed.
    """

    def __init__(self, table: HandOverTable, requests: RequestTable, end_ps: int) -> None:
        rows = np.searchsorted(requests.column("id"), table.ids)

        def of_request(name: str) -> Ints:
            return requests.column(name)[rows]

        under_way = requests.with_outcome(UNFINISHED)[rows]
        prefilled = of_request("prefill_done_ps")
        block = table.of(table.ids)
        stamps = stamps_of(prefilled, block)
        # What keeps the blocks of an ended prefill is its transfer, or the wait for it.
        unfreed = under_way & (stamps.freed < 0) & (block["kept_ps"] >= 0)
        self.cuts = cuts = cut(
            stamps._replace(
                prefill_done=np.where(under_way & (prefilled < 0), end_ps, prefilled),
                freed=np.where(unfreed, end_ps, stamps.freed),
            )
        )
        begun = stamps.start >= 0
        self.exposed_ps: Ints = np.where(begun, cuts.transfer, 0)
        self.hidden_ps: Ints = np.where(begun, cuts.hidden, 0)
        self.arrived: Bools = stamps.end >= 0
        # A request that finds everything in the decoding replica's own cache needs no transfer, and recomputes nothing.
        again = requests.with_outcome(COMPLETED)[rows] & (of_request("recomputed_tokens") > 0)
        self.lost: Bools = ~self.arrived & (
            requests.with_outcome(FAILED)[rows] | (again & (stamps.scheduled >= 0))
        )  # fmt: skip
        attempts = block["attempts"]
        self.failed: Ints = np.where(attempts > 0, attempts - (~self.lost).astype(np.int64), 0)
