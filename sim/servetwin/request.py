"""A request: passive data that travels from the workload to the recorder, with one owner at a time."""

from __future__ import annotations

from typing import Any

COMPLETED = "completed"
REJECTED = "rejected"
FAILED = "failed"
CANCELLED = "cancelled"
UNFINISHED = "unfinished"
OUTCOMES = (COMPLETED, REJECTED, FAILED, CANCELLED, UNFINISHED)

Segment = tuple[Any, int]
"""A stretch of a prompt, ``(key, tokens)``: the first ``tokens`` tokens of the endless token stream named ``key`` (any
hashable). Not to be confused with the segments of a run, which are stretches of steps (``servetwin.records``)."""


class Fate:
    """How drafts for one request would fare, by where in its output they begin.

    A step that begins when ``p`` of its output tokens are there has drafts of the tokens ``p``, ``p + 1``, …, and reads
    its fate at ``p``, whatever happened before: any number of drafts, and any history of it, is a reading of the same
    fate, and scenarios that draft differently stay comparable.

    Attributes:
        matches: by position, how many drafted tokens in a row would stand if there were any number of them.
        proposed: by position, how many tokens are drafted at most; None = as many as are asked for. Methods that look
            for matches in the text (n-gram, suffix) draft nothing where they find none.
    """

    __slots__ = ("matches", "proposed")

    def __init__(self, matches: bytes, proposed: bytes | None = None) -> None:
        self.matches = matches
        self.proposed = proposed


class Request:
    """One request and its real time stamps, all in integer picoseconds since the start; -1 = not (yet) happened.

    The prompt is ``segments`` in order. Two prompts share a prefix as far as their segments have equal keys and
    lengths, and inside the first differing pair as far as both keys are equal. What the segments leave of the prompt is
    shared with nobody; an empty tuple means that nothing is. The output continues the stream of the last segment when
    ``continues`` is true (a session, whose next turn repeats it); otherwise it is a stream of its own.

    Attributes:
        id: its number, unique in the run.
        arrival_ps: when it reaches the gateway [ps].
        prompt_tokens, output_tokens: its lengths. No policy may read the output length: it lies in the future.
        segments, continues: what the prompt and the output consist of, see above.
        session_id, turn: its session, -1 = none, and its place in there.
        class_name, priority: its traffic class, and the priority that goes with it (smaller = more urgent).
        deadline_ps: until when its first token should be visible [ps]; -1 = no deadline.
        pool, replica: where it was sent; -1 = nowhere.
        routed_ps: when the gateway sent it to the replica.
        queued_ps: when it reached the waiting queue.
        scheduled_ps: when the first step that it takes part in was planned.
        prefill_done_ps: when the step that completed its prompt ended.
        first_token_ps, last_token_ps: when these tokens became visible.
        hit_tokens: prompt tokens found in the prefix cache when it was first scheduled.
        predicted_hit_tokens: what the router expected of them; -1 = nothing was expected.
        recomputed_tokens: tokens that were computed again after preemptions.
        preemptions: how often it was preempted.
        drafted_tokens, accepted_tokens: drafted tokens that were verified for it, and those of them that stood.
        outcome, reason: how it ended, one of ``OUTCOMES``, and why.
        hand_over: how its KV cache gets from the replica that prefills it to the one that decodes it, or None.
        discarded: whether nobody sees its output: a prefill whose token the decoding replica computes again.

    The others belong to the rank that holds the request and mean nothing to anybody else:

        state: where it is inside the rank (``servetwin.engine.states``).
        order: its place in the order of admission.
        computed: tokens of it in the KV cache; while it decodes, as of ``join_step``.
        target: tokens to be computed before it yields its next token: the prompt and what it has produced.
        produced: output tokens planned so far; while it decodes, as of ``join_step``.
        join_step: the first step of its present stretch of decoding, -1 = none since it was admitted.
        joined: number of that stretch in the batch, 0 = it does not decode.
        growth_key: when it needs new blocks, see ``DecodeBatch.crossings``.
        held: KV blocks that it holds; while it decodes, those that it held before.
        chain_blocks: full blocks along its path.
        path: the nodes of the prefix cache that it runs through, or None.
        own: the node in which it finds blocks of its own again after a preemption, or None.
        preempted_at: tokens that it had in the KV cache when it was last preempted.
        recompute_left: of the tokens still to be computed, how many had been computed before it was preempted.
        fate: how drafts for it would fare, None where nobody drafts.
        reading: what it gains in its steps by that, see ``servetwin.engine.draft_reading``.
        history: of each step so far that verified drafts of it, where somebody asks: step, drafted, accepted tokens.
    """

    __slots__ = (
        "accepted_tokens",
        "arrival_ps",
        "chain_blocks",
        "class_name",
        "computed",
        "continues",
        "deadline_ps",
        "discarded",
        "drafted_tokens",
        "fate",
        "first_token_ps",
        "growth_key",
        "hand_over",
        "held",
        "history",
        "hit_tokens",
        "id",
        "join_step",
        "joined",
        "last_token_ps",
        "order",
        "outcome",
        "output_tokens",
        "own",
        "path",
        "pool",
        "predicted_hit_tokens",
        "preempted_at",
        "preemptions",
        "prefill_done_ps",
        "priority",
        "produced",
        "prompt_tokens",
        "queued_ps",
        "reading",
        "reason",
        "recompute_left",
        "recomputed_tokens",
        "replica",
        "routed_ps",
        "scheduled_ps",
        "segments",
        "session_id",
        "state",
        "target",
        "turn",
    )

    def __init__(
        self,
        id: int,
        arrival_ps: int,
        prompt_tokens: int,
        output_tokens: int,
        segments: tuple[Segment, ...] = (),
        continues: bool = False,
        session_id: int = -1,
        turn: int = 0,
        class_name: str = "",
        priority: int = 0,
        deadline_ps: int = -1,
    ) -> None:
        self.id = id
        self.arrival_ps = arrival_ps
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.segments = segments
        self.continues = continues
        self.session_id = session_id
        self.turn = turn
        self.class_name = class_name
        self.priority = priority
        self.deadline_ps = deadline_ps
        # Stamped on the way.
        self.pool = -1
        self.replica = -1
        self.routed_ps = -1
        self.queued_ps = -1
        self.scheduled_ps = -1
        self.prefill_done_ps = -1
        self.first_token_ps = -1
        self.last_token_ps = -1
        self.hit_tokens = 0
        self.predicted_hit_tokens = -1
        self.recomputed_tokens = 0
        self.preemptions = 0
        self.drafted_tokens = 0
        self.accepted_tokens = 0
        self.outcome = UNFINISHED
        self.reason = ""
        self.hand_over: Any = None
        self.discarded = False
        # For the rank only.
        self.state = 0
        self.order = -1
        self.computed = 0
        self.target = 0
        self.produced = 0
        self.join_step = -1
        self.joined = 0
        self.growth_key = -1
        self.held = 0
        self.chain_blocks = 0
        self.path: Any = None
        self.own: Any = None
        self.preempted_at = 0
        self.recompute_left = 0
        self.fate: Fate | None = None
        self.reading: Any = None
        self.history: Any = ()

    def postpone(self, late_ps: int) -> None:
        """Let it arrive ``late_ps`` [ps] later than meant; what it was promised counts from then."""
        self.arrival_ps += late_ps
        if self.deadline_ps >= 0:
            self.deadline_ps += late_ps

    def __repr__(self) -> str:
        return f"Request({self.id}, arrival {self.arrival_ps} ps, {self.prompt_tokens} → {self.output_tokens} tokens)"
