"""Speculative decoding: speed-ups by batch size, and what a verification step costs."""

from __future__ import annotations

from typing import ClassVar

from servetwin.catalog.find import Catalog
from servetwin.studies.validation.cases import Case
from servetwin.studies.validation.kinds.base import Kind
from servetwin.studies.validation.trial import NotYet, Trial

_NEEDS = "needs speculative decoding (drafts, verification and their acceptance)"


class Speculation(Kind):
    """Speed-ups over decoding without drafts."""

    name: ClassVar[str] = "spec_decode"

    def trials(self, case: Case, catalog: Catalog) -> list[Trial]:
        """Refuse: the comparison is what the case measures."""
        raise NotYet(_NEEDS)


class SpeculationCost(Speculation):
    """Costs of steps with drafts, by the number of tokens to verify: the step is one that verifies."""

    name: ClassVar[str] = "spec_decode_cost"
