"""What a leg moves, and when all of it has arrived."""

from __future__ import annotations

from servetwin.fabric.flows import Fabric
from servetwin.fabric.transfer import Leg, Transfers
from servetwin.kernel import new_environment
from servetwin.specs import Link


def test_a_leg_moves_tokens_windows_and_states() -> None:
    leg = Leg((0,), 1.0, 10.0, windows=((100, 3.0),), constant_bytes=7.0)
    # The middle of a prompt of 500 tokens: nothing of the window, no state.
    assert leg.moved(0, 300, 500) == 3000
    # Its end, in whole blocks: the window begins at token 400, and the state goes with it.
    assert leg.moved(300, 512, 500) == 2120 + 3 * 112 + 7
    assert leg.moved(0, 512, 500) == leg.moved(0, 300, 500) + leg.moved(300, 512, 500)


def test_it_has_arrived_with_its_last_leg_and_never_faster_than_the_share_of_the_links() -> None:
    env = new_environment()
    fabric = Fabric(env, [Link("slow", 1e9), Link("fast", 4e9)])
    arrived: list[int] = []
    legs = [Leg((0,), 0.5, 1.0), Leg((1,), 0.5, 1.0)]
    Transfers(fabric).send(legs, [10**6, 10**6], 0, lambda: arrived.append(env.now))
    env.run()
    # 1 MB of KV cache is 2 MB on the wire at 1 GB/s.
    assert arrived == [2_000_000_000]
    assert fabric.bytes_sent(0) == 2_000_000


def test_without_links_it_is_there_at_once() -> None:
    env = new_environment()
    arrived: list[int] = []
    Transfers(Fabric(env, [])).send([Leg((), 1.0, 1.0)], [10**9], 0, lambda: arrived.append(env.now))
    assert arrived == [0]
