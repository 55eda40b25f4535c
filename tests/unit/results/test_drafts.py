"""What became of drafts: the summary by hand, and counts that contradict each other."""

import pytest
from tests.unit.results.building import Run, Step, drafting_run, finish, meta, record

from servetwin.errors import InvariantError
from servetwin.results import DraftUse, Recorder
from servetwin.results.drafts import KEYS
from servetwin.units import PS_PER_S

END = 10 * PS_PER_S


def steps(*drafts, replica=0):
    """Steps of a microsecond, each with its drafted and accepted tokens."""
    return [
        Run(Step(replica, place * 10**6, 10**6, 10**6, tokens=drafted + 4, drafted=drafted, accepted=accepted))
        for place, (drafted, accepted) in enumerate(drafts)
    ]


def summary(runs, uses, replicas=1):
    recorder = Recorder(meta(replicas))
    record(recorder, runs)
    found = finish(recorder, END, drafts=uses).summary()
    return {key: found[key] for key in KEYS}


def test_the_summary_by_hand():
    """Two steps of two requests with 3 drafts: 12 tokens in 4 drafts, of which 2 + 1 + 1 and 1 + 0 + 0 stood."""
    assert summary(steps((6, 4), (6, 1)), [DraftUse(4, 12, (3, 1, 1))]) == {
        "spec_decode_num_drafts": 4,
        "spec_decode_num_draft_tokens": 12,
        "spec_decode_num_accepted_tokens": 5,
        "spec_decode_num_rejected_tokens": 7,
        "spec_decode_num_bonus_tokens": 4,
        "mean_acceptance_length": 2.25,
        "draft_acceptance_rate": 5 / 12,
        "acceptance_rate_per_position": [0.75, 0.25, 0.25],
    }


def test_replicas_add_up_whatever_their_k():
    runs = [*steps((6, 4)), *steps((2, 1), replica=2)]
    uses = [DraftUse(2, 6, (2, 1, 1)), None, DraftUse(2, 2, (1,))]
    found = summary(runs, uses, replicas=3)
    assert found["spec_decode_num_drafts"] == 4 and found["mean_acceptance_length"] == 2.25
    assert found["acceptance_rate_per_position"] == [0.75, 0.25, 0.25]


def test_without_speculation_nothing_is_defined():
    assert summary(steps((0, 0)), ()) == dict.fromkeys(KEYS)
    assert summary(steps((0, 0)), [None]) == dict.fromkeys(KEYS)


def test_with_speculation_that_never_drafts_there_are_counts_and_no_ratios():
    found = summary(steps((0, 0)), [DraftUse(0, 0, (0, 0, 0))])
    assert found == dict.fromkeys(KEYS[:5], 0) | dict.fromkeys(KEYS[5:])


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (None, "6 drafted tokens in its steps"),
        (DraftUse(2, 5, (2, 1, 1)), "5 drafted and 4 accepted"),
        (DraftUse(2, 6, (2, 1, 0)), "6 drafted and 3 accepted"),
        (DraftUse(2, 6, (1, 2, 1)), "by position"),
        (DraftUse(2, 6, (3, 1, 0)), "by position"),
        (DraftUse(7, 6, (2, 1, 1)), "in 7 drafts"),
        (DraftUse(1, 6, (2, 1, 1)), "by position"),
        (DraftUse(0, 6, (2, 1, 1)), "in 0 drafts"),
    ],
)
def test_counts_that_contradict_each_other_or_the_steps_are_found(use, words):
    assert summary(steps((6, 4)), [DraftUse(2, 6, (2, 1, 1))])["spec_decode_num_drafts"] == 2
    with pytest.raises(InvariantError, match=words):
        summary(steps((6, 4)), [use])


def test_a_tree_has_more_tokens_than_can_stand():
    """Two drafts of 21 tokens, at most 4 of which stand."""
    found = summary(steps((42, 5)), [DraftUse(2, 42, (2, 2, 1, 0))])
    assert found["mean_acceptance_length"] == 3.5 and found["draft_acceptance_rate"] == 5 / 42


def test_there_is_one_count_for_each_replica():
    with pytest.raises(InvariantError, match="1 counts of drafts for 2 replicas"):
        summary(steps((6, 4)), [DraftUse(2, 6, (2, 1, 1))], replicas=2)


def test_what_drafts_cost_is_in_the_ledger():
    """Per step 8 of 10 ms are compute and HBM, over 4 · (1 + K) tokens. Rejected are 2 of 16 with K = 3, 2 of 8 with 1.

    67 steps have K = 3, 67 have K = 1 and 66 have none.
    """
    seconds = drafting_run().ledger()["total"]["seconds"]
    assert seconds["draft"] == pytest.approx(2 * 134 * 0.001)
    assert seconds["wasted_verify"] == pytest.approx(2 * (67 * 0.008 / 8 + 67 * 0.008 / 4))
    assert seconds["host"] == pytest.approx(2 * (134 * 0.001 + 66 * 0.002))
    assert sum(seconds.values()) == pytest.approx(2 * 2.0)
