"""Where times lie among the steps of a replica, and what its links have carried by then."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from servetwin.errors import InvariantError
from servetwin.records import SEGMENT_COLUMNS
from servetwin.results.choices import CHOICE_COLUMNS
from servetwin.results.columns import ColumnStore
from servetwin.results.exact import Ints
from servetwin.results.exchanged import CollectiveUse, StepClock
from servetwin.results.links import CHUNK_COLUMNS, LinkTable, LinkUse

US = 10**6
"""Picoseconds in a microsecond."""


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def clock(segments: Sequence[tuple[int, int, int, int]]) -> StepClock:
    return StepClock(*(ints(*column) for column in zip(*segments, strict=True)))


def random_segments(rng: random.Random) -> list[tuple[int, int, int, int]]:
    """``(start, count, first, growth)``, with and without time between them."""
    found, now = [], rng.choice([0, 17])
    for _ in range(rng.randint(1, 6)):
        count, first, growth = rng.randint(1, 40), rng.randint(1, 10**4), rng.choice([0, 0, 1, 7, 10**3])
        found.append((now, count, first, growth))
        now += first * count + growth * count * (count - 1) // 2 + rng.choice([0, 0, 5, 10**5])
    return found


def each_step(segments: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, int]]:
    """Start and end of every step, added up one by one."""
    steps = []
    for start, count, first, growth in segments:
        for place in range(count):
            steps.append((start, start + first + growth * place))
            start = steps[-1][1]
    return steps


@pytest.mark.parametrize("seed", range(40))
def test_times_lie_where_the_steps_are(seed: int) -> None:
    rng = random.Random(seed)
    segments = random_segments(rng)
    steps = each_step(segments)
    horizon = steps[-1][1] + 100
    times = sorted({rng.randint(0, horizon) for _ in range(50)} | {time for step in steps for time in step})
    row, done, part = clock(segments).locate(ints(*times))
    before = np.append(0, np.cumsum([count for _, count, _, _ in segments]))
    for time, place, ended, rest in zip(times, row.tolist(), done.tolist(), part.tolist(), strict=True):
        assert before[place] + ended == sum(end <= time for _, end in steps)
        running = [(time - start) / (end - start) for start, end in steps if start <= time < end]
        assert rest == pytest.approx(running[0] if running else 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_cut_into_segments_does_not_matter(seed: int) -> None:
    """To the last bit: the files of all stepping levels are the same."""
    rng = random.Random(seed)
    segments = random_segments(rng)
    singles = [
        (start + first * place + growth * place * (place - 1) // 2, 1, first + growth * place, growth)
        for start, count, first, growth in segments
        for place in range(count)
    ]
    times = ints(*sorted(rng.randint(0, each_step(segments)[-1][1] + 5) for _ in range(200)))
    before = np.append(0, np.cumsum([count for _, count, _, _ in segments]))
    row, done, part = clock(segments).locate(times)
    alone, one, same = clock(singles).locate(times)
    # A time at the end of a step is in the next one, or all of the last.
    assert (before[row] + done == alone + one).all()
    assert (part == same).all()


def store(names: Sequence[str], rows: Sequence[dict[str, int]]) -> ColumnStore:
    found = ColumnStore(names)
    if rows:
        found.append(np.array([[row.get(name, 0) for name in names] for row in rows], np.int64))
    return found


def use(per_token: int, **changes: object) -> CollectiveUse:
    """One class of links, 0 and 1, that carry ``per_token`` bytes a token, 100 a row of logits, 1 a shared token."""

    def times(factor: int):  # type: ignore[no-untyped-def]
        return lambda sizes: factor * sizes.reshape(-1, 1)

    values = {
        "replica": 0, "links": [[0, 1]], "padded": ints(0, 1, 2, 4, 4), "context": 1, "by_tokens": times(per_token),
        "by_rows": times(100), "by_own": times(1), "in_order": True,
    }  # fmt: skip
    return CollectiveUse(**(values | changes))  # type: ignore[arg-type]


#: Four decodes of three requests, a prefill of nine and four tokens, and a step of another replica.
SEGMENTS = [
    {"replica": 0, "start_ps": 10 * US, "count": 4, "first_ps": 10 * US, "growth_ps": 0, "tokens": 3, "decodes": 3},
    {"replica": 0, "start_ps": 60 * US, "count": 1, "first_ps": 35 * US, "tokens": 13, "prefill_tokens": 13},
    {"replica": 1, "start_ps": 0, "count": 1, "first_ps": 90 * US, "tokens": 1000, "decodes": 7},
]
CHUNKS = [{"replica": 0, "start_ps": 60 * US, "tokens": tokens} for tokens in (9, 4)]
LINKS = [LinkUse(f"node0/gpu0/{name}", 10**12, (), ()) for name in ("link-out", "link-in", "nic-out")]


def table(*uses: CollectiveUse, links: Sequence[LinkUse] = LINKS, horizon_ps: int = 100 * US) -> LinkTable:
    segments, chunks = store(SEGMENT_COLUMNS, SEGMENTS), store(CHUNK_COLUMNS, CHUNKS)
    return LinkTable(links, lambda: uses, segments, chunks, store(CHOICE_COLUMNS, []), horizon_ps)


def test_bytes_by_hand() -> None:
    """Three tokens are padded to four, thirteen have no graph; three rows of logits, then one for each chunk."""
    one, other = table(use(1000)).rows()
    assert (one.link.name, other.link.name) == ("node0/gpu0/link-out", "node0/gpu0/link-in")
    decode, prefill = 4 * 1000 + 3 * 100, 13 * 1000 + 2 * 100
    assert one.collective_bytes.sum() == 4 * decode + prefill
    busy = one.collective_bytes > 0
    assert one.start_ps[busy][0] == 10 * US and one.end_ps[busy][-1] == 95 * US
    inside = (one.start_ps >= 10 * US) & (one.end_ps <= 20 * US)
    assert one.collective_bytes[inside].sum() == decode
    assert one.collective_bytes_per_s[inside] == pytest.approx(decode / 10e-6, rel=0.05)
    # What is idle is one interval.
    assert ((one.start_ps == 50 * US) & (one.end_ps == 60 * US)).any()
    assert one.end_ps[-1] == 100 * US


def test_drafts_have_rows_of_logits_of_their_own() -> None:
    """A step of three requests with two drafts each: nine tokens, and as many rows."""
    step = {"start_ps": 0, "count": 1, "first_ps": 10 * US, "tokens": 9, "decodes": 3, "drafted": 6, "accepted": 2}
    segments, chunks = store(SEGMENT_COLUMNS, [step]), store(CHUNK_COLUMNS, [])
    choices = store(CHOICE_COLUMNS, [])
    one, _ = LinkTable(LINKS, lambda: [use(1000)], segments, chunks, choices, 100 * US).rows()
    assert one.collective_bytes.sum() == 9 * 1000 + 9 * 100


def test_what_is_drafted_depends_on_tokens_requests_and_the_choice_of_the_time() -> None:
    """Two drafts from 20 us on, and none from 60 us on; of the other replica's choices nobody wants to know."""
    choices = store(CHOICE_COLUMNS, [
        {"replica": 1, "time_ps": 0, "k": 9}, {"replica": 0, "time_ps": 20 * US, "k": 2},
        {"replica": 0, "time_ps": 60 * US},
    ])  # fmt: skip
    starts = (10, 20, 40, 60)
    steps = [{"start_ps": start * US, "count": 1, "first_ps": 10 * US, "tokens": 3, "decodes": 3} for start in starts]
    steps[2] |= {"tokens": 12, "prefill_tokens": 9, "decodes": 1, "drafted": 2}
    asked: list[list[int]] = []

    def by_drafting(sizes: Ints) -> Ints:
        asked.extend(sizes.tolist())
        return (10**6 * sizes[:, 2] + 1000 * sizes[:, 1] + sizes[:, 0])[:, np.newaxis]

    segments, chunks = store(SEGMENT_COLUMNS, steps), store(CHUNK_COLUMNS, [{"start_ps": 40 * US, "tokens": 9}])
    quiet = use(0, by_drafting=by_drafting, by_rows=lambda sizes: 0 * sizes.reshape(-1, 1))
    links = [LinkUse(f"node0/gpu0/{name}", 10**13, (), ()) for name in ("link-out", "link-in")]
    one, _ = LinkTable(links, lambda: [quiet], segments, chunks, choices, 100 * US).rows()
    assert sorted(asked) == [[3, 3, 0], [3, 3, 2], [12, 2, 2]]
    assert one.collective_bytes.sum() == 2 * 3_003 + 2_003_003 + 2_002_012


def test_shared_tokens() -> None:
    """Two groups: five and two tokens of the chunks on the fullest, seven in all, which is what its GPUs reduce."""
    one, _ = table(use(1000, context=2)).rows()
    assert one.collective_bytes.sum() == 4 * (4 * 1000 + 300) + (7 * 1000 + 200 + 7)


def test_transfers_part_the_intervals() -> None:
    """At the very instants, where they change."""
    carries = [LinkUse("node0/gpu0/nic-out", 10**12, (12_345_678, 33 * US), (10**11, 0))]
    (rows,) = table(use(1000, links=[[0]]), links=carries).rows()
    assert {12_345_678, 33 * US} <= set(rows.start_ps.tolist())
    moved = rows.transfer_bytes_per_s * (rows.end_ps - rows.start_ps) * 1e-12
    assert moved.sum() == pytest.approx(0.1 * (33e-6 - 12.345678e-6) * 1e12)
    assert rows.collective_bytes.sum() == 4 * 4300 + 13200
    assert rows.start_ps[0] < 12_345_678 and (np.diff(rows.start_ps) > 0).all()
    assert (rows.start_ps[1:] == rows.end_ps[:-1]).all()
    (alone,) = table(links=carries).rows()
    assert alone.start_ps.tolist() == [12_345_678, 33 * US] and not alone.collective_bytes.any()


def test_replicas_add_up_on_a_link() -> None:
    both = [use(1000, links=[[2]]), use(10, replica=1, links=[[2]])]
    (rows,) = table(*both).rows()
    assert rows.link.name.endswith("nic-out")
    assert rows.collective_bytes.sum() == 4 * 4300 + 13200 + 10_000 + 700
    (mean,) = table(*both).by_kind().items()
    assert mean[0] == "nic"
    assert mean[1]["mean"] == pytest.approx((4 * 4300 + 13200 + 10_700) / (1e12 * 100e-6))


def test_a_collective_that_is_faster_than_the_link_is_a_bug() -> None:
    """A step of 10 us can send 10 MB over a link of 1 TB/s: 2.5 MB for each of its four tokens."""
    list(table(use(2_400_000)).rows())
    with pytest.raises(InvariantError, match="faster than the link"):
        list(table(use(2_600_000)).rows())
    # The steps of a pipeline overlap: only the whole run can be looked at.
    list(table(use(2_600_000, in_order=False)).rows())
    with pytest.raises(InvariantError, match="more than it can in the run"):
        list(table(use(26_000_000, in_order=False)).rows())


def test_where_nobody_exchanges_nothing_is_told() -> None:
    assert list(table().rows()) == [] and table().by_kind() == {}
    assert list(table(use(1000, replica=5)).rows()) == []
