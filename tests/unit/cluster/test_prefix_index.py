"""What a gateway remembers of the prompts that it has sent, worked by hand and against a list of blocks."""

from __future__ import annotations

import random

import pytest
from tests.reference.naive_deciders import SentPrompts
from tests.reference.naive_engine import Job

from servetwin.cluster.prefix_index import PrefixIndex
from servetwin.request import Request, Segment


def prompt(*segments: Segment, tokens: int | None = None, id: int = 0) -> Request:
    """A prompt of these segments, or longer."""
    return Request(id, 0, sum(length for _, length in segments) if tokens is None else tokens, 1, segments)


def test_what_was_sent_is_matched_in_whole_blocks_on_that_replica() -> None:
    """Of 100 + 60 tokens in blocks of 64, two blocks: the second ends in the other segment."""
    index = PrefixIndex()
    index.add(3, prompt(("system", 100), ("question", 60)))
    assert index.matched(3, prompt(("system", 100), ("question", 60))) == 128
    assert index.matched(3, prompt(("system", 100), ("another", 60))) == 64
    assert index.matched(3, prompt(("system", 63))) == 0
    assert index.matched(2, prompt(("system", 100))) == 0


def test_two_streams_that_part_share_what_lies_before() -> None:
    """90 tokens of one stream against 200 of it: as far as both go, which is one block, then they differ."""
    index = PrefixIndex()
    index.add(0, prompt(("s", 90), ("a", 110)))
    assert index.matched(0, prompt(("s", 200))) == 64
    assert index.matched(0, prompt(("s", 90), ("a", 20))) == 64
    assert index.matched(0, prompt(("s", 90), ("a", 38))) == 128


def test_the_next_turn_of_a_session_finds_the_prompt_before_it_but_not_the_answer() -> None:
    index = PrefixIndex()
    index.add(0, Request(0, 0, 150, 500, (("session", 150),), continues=True))
    assert index.matched(0, Request(1, 0, 900, 10, (("session", 900),), continues=True)) == 128


def test_what_nobody_shares_is_not_found_but_takes_its_room() -> None:
    """Room for 4 blocks. A prompt of 3 blocks of its own leaves one of the two that were there: the second."""
    index = PrefixIndex(block_tokens=10, capacity_blocks=4)
    index.add(0, prompt(("s", 20)))
    assert index.matched(0, prompt(("s", 20))) == 20
    index.add(0, Request(1, 0, 39, 1))
    assert index.matched(0, Request(1, 0, 39, 1)) == 0
    assert index.matched(0, prompt(("s", 20))) == 0, "without its first block the second is of no use"


def test_what_was_sent_last_stays_longest() -> None:
    """Room for 4 blocks, three prompts of 2: the first is sent again before the third comes, so the second goes."""
    index = PrefixIndex(block_tokens=10, capacity_blocks=4)
    for name in "abac":
        index.add(0, prompt((name, 20)))
    assert [index.matched(0, prompt((name, 20))) for name in "abc"] == [20, 0, 20]


def test_a_look_does_not_keep_anything() -> None:
    index = PrefixIndex(block_tokens=10, capacity_blocks=4)
    index.add(0, prompt(("a", 20)))
    index.add(0, prompt(("b", 20)))
    assert index.matched(0, prompt(("a", 20))) == 20
    index.add(0, prompt(("c", 20)))
    assert [index.matched(0, prompt((name, 20))) for name in "abc"] == [0, 20, 20]


def test_only_the_beginning_of_a_long_prompt_is_looked_at() -> None:
    index = PrefixIndex(block_tokens=10, most_tokens=45)
    index.add(0, prompt(("a", 100)))
    assert index.matched(0, prompt(("a", 100))) == 40


@pytest.mark.parametrize("seed", range(30))
def test_it_agrees_with_a_list_of_blocks(seed: int) -> None:
    """Streams cut at random places, prompts with a part of their own, and far too little room."""
    rng = random.Random(seed)
    block, room, most = rng.choice([1, 3, 8]), rng.choice([5, 20, 60]), rng.choice([40, 1000])
    index, blocks = PrefixIndex(block, room, most), SentPrompts(block, room, most)
    found = 0
    for number in range(300):
        segments = tuple((rng.choice("abc"), rng.randint(1, 25)) for _ in range(rng.randint(0, 4)))
        request = prompt(*segments, id=number)
        if not segments or rng.random() < 0.3:
            request.prompt_tokens += rng.randint(1, 20)
        replica = rng.randrange(2)
        assert index.matched(replica, request) == blocks.matched(replica, Job(request))
        found += index.matched(replica, request) > 0
        if rng.random() < 0.7:
            index.add(replica, request)
            blocks.add(replica, Job(request))
            memory = index._memories[replica]
            assert memory.blocks == sum(piece.end - piece.first for piece in memory.ages) == len(blocks.sent[replica])
    assert found


def test_a_tree_whose_blocks_are_forgotten_shrinks() -> None:
    """After a thousand sessions there are no more stretches than blocks are remembered."""
    index = PrefixIndex(block_tokens=10, capacity_blocks=20)
    for number in range(1000):
        index.add(0, prompt(("head", 7), (("session", number), 15), (("turn", number), 9)))
    waiting, nodes = [index._memories[0].root], 0
    while waiting:
        children = list(waiting.pop().children.values())
        nodes += len(children)
        waiting += children
    assert nodes <= 2 * 20 + 1
