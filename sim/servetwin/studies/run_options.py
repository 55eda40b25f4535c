"""What holds for every run of a study."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from servetwin.scenario.overrides import Override


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What holds for every run.

    Attributes:
        seed: of the random streams; None = that of the scenarios, 0.
        changes: overrides of scenario fields, ``PATH=VALUE``.
        catalog: the user's folders of models and GPUs.
        plugins: files that register policies.
        strict: whether every account is counted again at every step.
        jobs: processes.
    """

    seed: int | None = None
    changes: tuple[str, ...] = ()
    catalog: tuple[Path, ...] = ()
    plugins: tuple[Path, ...] = ()
    strict: bool = False
    jobs: int = 1

    @property
    def overrides(self) -> list[str | Override]:
        """The changes and the seed."""
        seed = [] if self.seed is None else [Override(f"--seed {self.seed}", "run.seed", self.seed)]
        return [*self.changes, *seed]
