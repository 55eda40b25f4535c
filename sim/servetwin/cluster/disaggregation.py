"""Prefill on one replica, decode on another: who does what, and the way of the KV cache between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from servetwin.cluster.gateway import NOBODY_LEFT, Gateway
from servetwin.cluster.group import Group
from servetwin.cluster.hand_over import HandOver, prefill_of
from servetwin.cluster.protocols import CHOICES, LOCAL, MIXED, REJECT, SPLIT, Decider
from servetwin.cluster.replica import BOTH, Replica
from servetwin.cluster.rules import FAIL, PULL, PUSH, STREAM, Rules
from servetwin.cluster.split_view import ClusterView
from servetwin.engine.loading import FREED, NEWS, tell
from servetwin.errors import ScenarioError, shorten
from servetwin.fabric.transfer import Leg, Transfers
from servetwin.kernel import FLOW_END, HAND_OVER, Environment, Nap, priority
from servetwin.kernel.nap import call_at
from servetwin.request import COMPLETED, FAILED, REJECTED, Request

LEFT = "its KV cache was on a replica that has left"
"""Why a request may fail when a replica leaves."""

Legs = Sequence[Leg]


@dataclass(frozen=True, slots=True)
class Judge:
    """Who decides whether requests are split.

    Attributes:
        decider: decides.
        policy: the name of its policy, for messages.
        reads_cache: whether it asks how much of a prompt the decoding replica has cached.
        predicts: whether it asks for predictions.
    """

    decider: Decider
    policy: str
    reads_cache: bool = False
    predicts: bool = False


class Disaggregation:
    """Sends requests over prefilling and decoding replicas; implements ``Splitter`` and ``Mover``.

    Args:
        env: the environment.
        rules: how KV cache is handed over.
        judge: decides whether a request is split.
        transfers: sends over the links.
        legs: by pair of replicas, the legs from one to the other; into the CPU memory of its server where ``push``.
        onward: by replica, the legs from the CPU memory of its server; ``push`` only.
        fails: whether the next attempt of a request fails, told by its id; None = never.
        record: told of every hand-over when its request ends (``records.RunLog.handed_over``).

    Attributes:
        rules, judge, transfers, legs, onward: as above.
    """

    def __init__(
        self,
        env: Environment,
        rules: Rules,
        judge: Judge,
        transfers: Transfers,
        legs: Callable[[int, int], Legs],
        onward: Callable[[int], Legs],
        fails: Callable[[int, int], bool] | None,
        record: Callable[[int, int, int, int, int, int, int, int, int, int, int, int, int], None],
    ) -> None:
        self.rules = rules
        self.judge = judge
        self.transfers = transfers
        self.legs = legs
        self.onward = onward
        self._env = env
        #: What a decider of somebody else answers may be anything.
        self._decide: Any = judge.decider.decide
        self._fails = fails
        self._record = record
        self._leases: deque[tuple[int, HandOver]] = deque()
        self._alarm = Nap(env, priority(FLOW_END))

    def open(
        self, gateway: Gateway, replicas: Sequence[Replica], prefill: Group, decode: Group, mixed: Group | None,
        view: ClusterView,
    ) -> None:  # fmt: skip
        """Start to route.

        Args:
            gateway: where requests come from and return to.
            replicas: all replicas of the cluster.
            prefill: those that prefill.
            decode: those that decode.
            mixed: those that do both; None = there are none.
            view: what the decider sees.
        """
        self._gateway = gateway
        self._replicas = replicas
        self._prefill = prefill
        self._decode = decode
        self._mixed = mixed
        self._view = view

    # -- requests ------------------------------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        """A request has been admitted, now.

        Raises:
            ScenarioError: the decider's answer is none of those that there are.
        """
        view, decode, mixed = self._view, self._decode, self._mixed
        there = decode.fleet.all()
        target = decode.choose(request) if there and self.rules.decode_first else -1
        if there and self._prefill.fleet.all():
            view.target = target
            choice = self._decide(request, view)
        else:
            # Replicas have left: whoever can do it alone does.
            choice = LOCAL if there or not view.mixed else MIXED
        if choice == SPLIT:
            self._let_in(request)
            self._split(request, target)
        elif choice == LOCAL:
            self._let_in(request)
            if not there:
                self._gateway.fail(request, NOBODY_LEFT)
                return
            decode.assign(request, target if target >= 0 else decode.choose(request)).submit(request)
        elif choice == MIXED and mixed is not None and view.mixed:
            self._let_in(request)
            mixed.assign(request, mixed.choose(request)).submit(request)
        elif isinstance(choice, str) and choice.startswith(REJECT):
            self._gateway.refuse(request, choice.removeprefix(REJECT))
        else:
            raise self._refusal(choice)

    def _let_in(self, request: Request) -> None:
        request.routed_ps = self._env._now
        self._gateway.in_flight[request] = None

    def _refusal(self, choice: object) -> ScenarioError:
        """The mistake of a decider, which is not one of this program."""
        known = [repr(one) for one in CHOICES if one != MIXED or self._view.mixed]
        return ScenarioError(
            f"the disaggregation policy '{self.judge.policy}' decides on what there is not", path="disaggregation",
            found=f"decide returned {repr(choice) if isinstance(choice, str) else shorten(choice)}",
            allowed=f"{', '.join(known)}, or '{REJECT}' and a reason",
            hint="servetwin.testing.DisaggregationContract tests a policy of one's own",
        )  # fmt: skip

    def _split(self, request: Request, target: int) -> None:
        """Split a request; ``target`` is the replica that decodes it, -1 = not chosen yet."""
        rules = self.rules
        prefill = prefill_of(request, rules.regenerates)
        hand_over = HandOver(request, prefill)
        request.hand_over = prefill.hand_over = hand_over
        if not rules.regenerates:
            request.produced = 1
        if target >= 0:
            hand_over.target = target
            self._decode.assign(request, target)
        source = self._prefill.assign(prefill, self._prefill.choose(prefill))
        hand_over.source = source.index
        if rules.mode != PULL and target < 0:
            self._choose_target(hand_over)
        source.submit(prefill)
        if rules.mode == STREAM and not hand_over.closed:
            self._replicas[hand_over.target].submit(request)

    def _choose_target(self, hand_over: HandOver) -> None:
        request = hand_over.request
        hand_over.target = self._decode.choose(request)
        self._decode.assign(request, hand_over.target)

    def _to_target_at(self, hand_over: HandOver, time_ps: int) -> None:
        """The request goes to the replica that decodes it at ``time_ps`` [ps]."""
        call_at(self._env, time_ps, priority(HAND_OVER, hand_over.request.id), lambda: self._to_target(hand_over))

    def _to_target(self, hand_over: HandOver) -> None:
        if hand_over.closed:
            return
        if hand_over.target < 0:
            if not self._decode.fleet.all():
                self._fail(hand_over, NOBODY_LEFT)
                return
            self._choose_target(hand_over)
        self._replicas[hand_over.target].submit(hand_over.request, after=True)

    def finished(self, request: Request, visible_ps: int) -> bool:
        """A replica is done with a request, or with the prefill of one; True if the request itself goes on."""
        hand_over: HandOver | None = request.hand_over
        if hand_over is None:
            self._group_of(request).left(request)
            return False
        if request is hand_over.prefill:
            self._prefilled(hand_over, visible_ps)
            return True
        self._close(hand_over)
        return False

    def _group_of(self, request: Request) -> Group:
        """The replicas among which a request that was not split was sent to one."""
        mixed = self._mixed
        if mixed is not None and self._replicas[request.replica].role == BOTH:
            return mixed
        return self._decode

    def _prefilled(self, hand_over: HandOver, visible_ps: int) -> None:
        """The prefill has ended: its token is on the way to the router."""
        rules, request, prefill = self.rules, hand_over.request, hand_over.prefill
        self._prefill.left(prefill)
        # The run lasts for as long as anybody works, be it for a request that has failed.
        self._gateway.last_end_ps = self._env._now
        if prefill.outcome == REJECTED:
            request.outcome, request.reason = REJECTED, prefill.reason
            self._end(hand_over, visible_ps)
            return
        if hand_over.closed:
            return
        hand_over.prefilled = True
        request.prefill_done_ps = prefill.prefill_done_ps
        if not rules.regenerates:
            request.first_token_ps = request.last_token_ps = prefill.first_token_ps
            if request.output_tokens == 1:
                request.outcome = COMPLETED
                self._end(hand_over, visible_ps, after=True)
                return
        if hand_over.kept:
            hand_over.kept_ps = self._env._now
            self._lease(hand_over)
        if rules.mode == PULL:
            hand_over.computed = request.prompt_tokens
        if rules.mode == PULL or (rules.mode == PUSH and (hand_over.fetched or hand_over.over)):
            self._to_target_at(hand_over, visible_ps)
        elif rules.mode == STREAM and not rules.regenerates and not hand_over.flying:
            now = self._env._now
            call_at(self._env, now, priority(HAND_OVER, request.id), lambda: self._complete(hand_over, after=True))

    def _end(self, hand_over: HandOver, visible_ps: int, after: bool = False) -> None:
        """The request ends, although no decoding replica is done with it."""
        request = hand_over.request
        if request.queued_ps >= 0:
            self._replicas[hand_over.target].executor.withdraw(request, after)
        self._close(hand_over)
        self._gateway.end(request, visible_ps)

    def _close(self, hand_over: HandOver) -> None:
        """The request has ended: what is left of it goes."""
        hand_over.over = hand_over.closed = True
        self._let_go(hand_over)
        if hand_over.target >= 0:
            self._decode.left(hand_over.request)
        self.settle(hand_over)

    def settle(self, hand_over: HandOver) -> None:
        """Give the request what its prefill has been stamped with, and enter the hand-over."""
        request, prefill = hand_over.request, hand_over.prefill
        hand_over.queued_ps, hand_over.scheduled_ps = request.queued_ps, request.scheduled_ps
        request.queued_ps, request.scheduled_ps = prefill.queued_ps, prefill.scheduled_ps
        hand_over.hit_tokens, request.hit_tokens = request.hit_tokens, prefill.hit_tokens
        request.recomputed_tokens += prefill.recomputed_tokens
        request.preemptions += prefill.preemptions
        if hand_over.target < 0:
            request.replica, request.pool = prefill.replica, prefill.pool
        self._record(
            request.id, hand_over.source, hand_over.target, hand_over.queued_ps, hand_over.scheduled_ps,
            hand_over.reserved_ps, hand_over.start_ps, hand_over.end_ps, hand_over.kept_ps, hand_over.freed_ps,
            hand_over.moved_bytes, hand_over.attempts, hand_over.found,
        )  # fmt: skip

    # -- moving the KV cache -------------------------------------------------------------------------------------

    def reserved(self, hand_over: HandOver, found: int, loaded: Callable[[bool, bool], None]) -> None:
        """The decoding replica has blocks for what it lacks beyond its own ``found`` tokens."""
        hand_over.reserved_ps = self._env._now
        hand_over.loaded = loaded
        hand_over.found = found
        if self.rules.mode == PUSH:
            self._load(hand_over)
        else:
            hand_over.sent = found
            self._send(hand_over, hand_over.layers_end_ps)

    def computing(self, hand_over: HandOver, computed: int, end_ps: int) -> None:
        """A step begins now that brings the prefill to ``computed`` tokens at ``end_ps`` [ps].

        Its layers are computed one after the other, and each is sent when it is there; what was found in the cache of
        the prefilling replica goes with the first of them.
        """
        if hand_over.over or computed <= hand_over.computed:
            return
        hand_over.computed = computed
        hand_over.layers_end_ps = end_ps
        if self.rules.mode == PUSH or hand_over.loaded is not None:
            self._send(hand_over, end_ps)

    def unneeded(self, hand_over: HandOver) -> None:
        """The decoding replica has all that it needs."""
        hand_over.over = True
        self._let_go(hand_over)

    def _send(self, hand_over: HandOver, end_ps: int) -> None:
        """Send what is computed and has not been sent, its last layer not before ``end_ps`` [ps].

        If layers are still being computed, the first of them is the first to be sent, all but the last follow it, and
        the last one goes when it is there.
        """
        rules, now = self.rules, self._env._now
        first, length = hand_over.sent, hand_over.request.prompt_tokens
        last = hand_over.computed
        if last <= first:
            return
        hand_over.sent = last
        if last == length:
            last = -(-last // rules.block_size) * rules.block_size
        begin = now
        if hand_over.ready_ps < 0:
            self._begin(hand_over, rules.setup_ps)
        begin = max(now, hand_over.ready_ps) + rules.block_ps * -(-(last - first) // rules.block_size)
        legs = self.legs(hand_over.source, hand_over.target)
        whole = [leg.moved(first, last, length) for leg in legs]
        if end_ps <= now:
            self._send_at(begin, hand_over, legs, whole)
            return
        tail = [size // rules.layers for size in whole]
        body = [size - part for size, part in zip(whole, tail, strict=True)]
        self._send_at(max(begin, end_ps), hand_over, legs, tail)
        self._send_at(max(begin, now + (end_ps - now) // rules.layers), hand_over, legs, body)

    def _begin(self, hand_over: HandOver, setup_ps: int) -> None:
        """An attempt to move the KV cache begins, now."""
        now = self._env._now
        hand_over.attempts += 1
        hand_over.ready_ps = now + setup_ps
        if hand_over.start_ps < 0:
            hand_over.start_ps = now
        fails = self._fails
        hand_over.failing = fails is not None and fails(hand_over.request.id, hand_over.attempts)

    def _send_at(self, time_ps: int, hand_over: HandOver, legs: Legs, sizes: Sequence[int]) -> None:
        """Send a part of the KV cache at ``time_ps`` [ps]."""
        hand_over.flying += 1
        hand_over.moved_bytes += sum(sizes)
        index = hand_over.request.id

        journey = hand_over.journey

        def send() -> None:
            self.transfers.send(legs, sizes, index, lambda: self._arrived(hand_over, journey))

        if time_ps <= self._env._now:
            send()
        else:
            call_at(self._env, time_ps, priority(FLOW_END, index), send)

    def _arrived(self, hand_over: HandOver, journey: int) -> None:
        """A part of the KV cache has arrived."""
        if journey != hand_over.journey:
            return
        hand_over.flying -= 1
        rules = self.rules
        # The first token, which comes with the KV cache, may not be there yet.
        if not hand_over.flying and (rules.mode != STREAM or rules.regenerates or hand_over.prefilled):
            self._complete(hand_over, after=False)

    def _complete(self, hand_over: HandOver, after: bool) -> None:
        """Nothing is on the way; if all was sent, it is there.

        Args:
            hand_over: the hand-over.
            after: whether the ends of steps of this instant have been.
        """
        if hand_over.over or hand_over.sent < hand_over.request.prompt_tokens:
            return
        if hand_over.failing:
            self._failed(hand_over, after)
        elif self.rules.mode == PUSH and not hand_over.fetched:
            hand_over.fetched = True
            hand_over.ready_ps = -1
            self._let_go(hand_over)
            if hand_over.prefilled:
                self._to_target_at(hand_over, max(self._env._now, hand_over.prefill.last_token_ps))
        else:
            hand_over.fetched = hand_over.over = True
            hand_over.end_ps = self._env._now
            self._let_go(hand_over)
            loaded = hand_over.loaded
            assert loaded is not None
            loaded(True, after)

    def _load(self, hand_over: HandOver) -> None:
        """Load what lies in the CPU memory of the decoding server."""
        rules, length = self.rules, hand_over.request.prompt_tokens
        last = -(-length // rules.block_size) * rules.block_size
        legs = self.onward(hand_over.target)
        self._send_at(self._env._now, hand_over, legs, [leg.moved(hand_over.found, last, length) for leg in legs])

    def _failed(self, hand_over: HandOver, after: bool) -> None:
        """All was sent, and the other side does not have it."""
        rules, env = self.rules, self._env
        if hand_over.attempts <= rules.retries:
            index = hand_over.request.id
            call_at(env, env._now + rules.retry_ps, priority(FLOW_END, index), lambda: self._again(hand_over))
            return
        self._lose(hand_over, "the transfer of its KV cache has failed", after)

    def _again(self, hand_over: HandOver) -> None:
        if hand_over.over:
            return
        hand_over.ready_ps = -1
        hand_over.sent = hand_over.found
        self._send(hand_over, -1)

    def _lose(self, hand_over: HandOver, reason: str, after: bool = False) -> None:
        """The KV cache will not come."""
        request = hand_over.request
        hand_over.over = True
        if self.rules.on_failure == FAIL:
            self._fail(hand_over, reason, after)
            return
        self._let_go(hand_over)
        request.preempted_at = request.prompt_tokens
        if hand_over.loaded is not None:
            hand_over.loaded(False, after)
        elif request.queued_ps >= 0:
            tell(self._replicas[hand_over.target].executor.rank, request, NEWS)
        elif self.rules.mode == PUSH and hand_over.prefilled:
            self._to_target_at(hand_over, max(self._env._now, hand_over.prefill.last_token_ps))

    def _fail(self, hand_over: HandOver, reason: str, after: bool = False) -> None:
        request = hand_over.request
        request.outcome, request.reason = FAILED, reason
        request.last_token_ps = -1
        self._end(hand_over, self._env._now, after)

    # -- replicas that leave -------------------------------------------------------------------------------------

    def stranded(self, replica: int, requests: Sequence[Request]) -> None:
        """A replica has left, with requests and prefills on it, and with the KV cache of others."""
        for request in requests:
            hand_over: HandOver | None = request.hand_over
            if hand_over is None:
                self._reroute(request)
            elif request is hand_over.prefill:
                self._prefill_again(hand_over)
            else:
                request.queued_ps = -1
                self._retarget(hand_over, was_there=True)
        # A rare path, linear in the requests under way.
        for request in list(self._gateway.in_flight):
            hand_over = request.hand_over
            if hand_over is None or hand_over.closed:
                continue
            if hand_over.source == replica and hand_over.kept:
                hand_over.kept = False
                hand_over.freed_ps = self._env._now
                if not hand_over.over:
                    self._lose(hand_over, LEFT, after=True)
            elif hand_over.target == replica:
                self._retarget(hand_over, was_there=False)

    def _reroute(self, request: Request) -> None:
        """A request that was not split goes to another replica of the same role."""
        group = self._group_of(request)
        group.left(request)
        if group.fleet.all():
            group.assign(request, group.choose(request)).submit(request, after=True)
        else:
            self._gateway.fail(request, NOBODY_LEFT)

    def _prefill_again(self, hand_over: HandOver) -> None:
        """The prefill was on a replica that has left: another one does it, and what was sent of it is of no use."""
        prefill = hand_over.prefill
        self._prefill.left(prefill)
        if hand_over.closed:
            return
        if not self._prefill.fleet.all():
            self._fail(hand_over, NOBODY_LEFT, after=True)
            return
        hand_over.restart()
        hand_over.computed, hand_over.layers_end_ps = 0, -1
        source = self._prefill.assign(prefill, self._prefill.choose(prefill))
        hand_over.source = source.index
        source.submit(prefill, after=True)

    def _retarget(self, hand_over: HandOver, *, was_there: bool) -> None:
        """The replica that was to decode the request has left, with what was sent to it: another one does it."""
        rules, request = self.rules, hand_over.request
        self._decode.left(request)
        hand_over.target = -1
        lost = hand_over.over or hand_over.fetched
        if lost and rules.on_failure == FAIL:
            self._fail(hand_over, LEFT)
            return
        hand_over.over = lost
        hand_over.found = 0
        hand_over.restart()
        hand_over.loaded = None
        if was_there:
            self._to_target(hand_over)
        elif not self._decode.fleet.all():
            self._fail(hand_over, NOBODY_LEFT)
        elif rules.mode == PUSH and not lost:
            self._choose_target(hand_over)
            self._send(hand_over, hand_over.layers_end_ps)

    # -- blocks that wait to be fetched --------------------------------------------------------------------------

    def _let_go(self, hand_over: HandOver) -> None:
        """The prefilling replica need not keep the blocks any more."""
        if hand_over.kept:
            hand_over.kept = False
            hand_over.freed_ps = self._env._now
            # Plans of this very instant may have been made.
            tell(self._replicas[hand_over.source].executor.rank, hand_over.prefill, FREED, after=True)

    def _lease(self, hand_over: HandOver) -> None:
        """The blocks are kept until somebody fetches them, but not for ever."""
        leases = self._leases
        leases.append((self._env._now + self.rules.lease_ps, hand_over))
        if len(leases) == 1:
            self._alarm.until(leases[0][0]).callbacks.append(self._look_at_leases)

    def _look_at_leases(self, _alarm: Any) -> None:
        leases, now = self._leases, self._env._now
        while leases and (leases[0][0] <= now or not leases[0][1].kept):
            hand_over = leases.popleft()[1]
            if hand_over.kept and hand_over.start_ps < 0:
                self._lose(hand_over, "its KV cache was not fetched in time")
        if leases:
            self._alarm.until(leases[0][0]).callbacks.append(self._look_at_leases)
