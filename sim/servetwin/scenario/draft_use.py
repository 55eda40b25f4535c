"""What became of the drafts of a cluster, as the results want it."""

from __future__ import annotations

from collections.abc import Sequence

from servetwin.cluster.replica import Replica
from servetwin.engine.draft_accounts import DraftAccounts
from servetwin.engine.draft_executor import DraftingExecutor
from servetwin.results.drafts import DraftUse


def draft_uses(replicas: Sequence[Replica]) -> list[DraftUse | None]:
    """By replica, what its books say of drafts; None where it has no speculation."""
    return [_use(replica) for replica in replicas]


def _use(replica: Replica) -> DraftUse | None:
    executor = replica.executor
    if not isinstance(executor, DraftingExecutor):
        return None
    accounts = executor.accounts
    assert isinstance(accounts, DraftAccounts)
    return DraftUse(accounts.drafts, accounts.drafted, tuple(accounts.by_position))
