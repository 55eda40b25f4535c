"""When the controller of speculation is asked, and what it is told by then."""

from __future__ import annotations

from collections import deque
from typing import Any

from servetwin.engine.batch import NEVER
from servetwin.engine.protocols import DraftController, StepForecast
from servetwin.errors import ScenarioError, shorten
from servetwin.physics.protocols import OVER


class _View:
    """See ``DraftView``."""

    def __init__(self, most: int, requests: int, context: int, forecast: StepForecast) -> None:
        self.most = most
        self.requests = requests
        self.context = context
        self._forecast = forecast

    def step_ps(self, k: int) -> int:
        """See ``DraftView``."""
        return self._forecast(self.requests, self.context, k)


class DraftControl:
    """Asks the controller of one rank when the number of requests changes, and when it wants to be asked again.

    Args:
        controller: how many drafts to make.
        most: drafts in a row per request, at most.
        depth: scheduling depth: the outcome of a step is known so many plans later.
        forecast: predicts the time of steps.
        named: the name of its policy and where the scenario says so, for messages.

    Attributes:
        observes: whether the controller wants to know what became of drafts.
        per_request: whether requests have limits of their own.
    """

    __slots__ = ("_asked", "_controller", "_depth", "_forecast", "_most", "_named", "_outcomes", "_review", "observes",
                 "per_request")  # fmt: skip

    def __init__(
        self, controller: DraftController, most: int, depth: int, forecast: StepForecast, named: tuple[str, str]
    ) -> None:
        #: What a controller of somebody else answers may be anything.
        self._controller: Any = controller
        self._most = most
        self._depth = depth
        self._forecast = forecast
        self._named = named
        self.observes = controller.observes
        self.per_request = controller.per_request
        #: For how many requests the controller was last asked, and in which step it wants to be again.
        self._asked = -1
        self._review = 0
        #: Steps whose outcome the controller has not been told: step, requests, drafted tokens, accepted by position.
        self._outcomes: deque[tuple[int, int, int, list[int]]] = deque()

    def decide(self, requests: int, context: int, step: int, made: int) -> int:
        """How many drafts the step being planned makes at its end, or ``OVER``.

        Args:
            requests: requests in the step.
            context: KV tokens that they have.
            step: its number.
            made: drafts that the step before made.

        Raises:
            ScenarioError: the controller's answer is no number of drafts that there may be.
        """
        if requests == self._asked and step < self._review:
            return made
        controller, outcomes = self._controller, self._outcomes
        # A plan is made when the step ``depth`` before its own starts, and knows what came of the steps before that.
        while outcomes and outcomes[0][0] < step - self._depth:
            _, verifying, drafted, accepted = outcomes.popleft()
            controller.observe(verifying, drafted, accepted)
        self._asked = requests
        self._review = step + controller.review_steps if controller.review_steps else NEVER
        answer = controller.choose(_View(self._most, requests, context, self._forecast))
        if type(answer) is not int or not 0 <= answer <= self._most:
            allowed = f"a whole number from 0 to k, which is {self._most}"
            raise self._refusal("chooses a number of drafts that there cannot be", "choose", answer, allowed)
        return OVER if answer == 0 and getattr(controller, "over", False) else answer

    def steps_left(self, requests: int, step: int) -> int:
        """How many steps of so many requests can be planned from ``step`` on before the controller is asked."""
        return self._review - step if self._asked == requests else 0

    def remember(self, step: int, verifying: int, drafted: int, accepted: list[int]) -> None:
        """Keep what comes of a step until the controller may know."""
        self._outcomes.append((step, verifying, drafted, accepted))

    def limit(self, history: list[tuple[int, int]]) -> int:
        """See ``DraftController``.

        Raises:
            ScenarioError: the controller's answer is no limit.
        """
        answer = self._controller.limit(history)
        if type(answer) is not int or answer < 0:
            allowed = f"a whole number from 0 on; above k, which is {self._most}, there is no limit"
            raise self._refusal("limits a request to a number of drafts that there cannot be", "limit", answer, allowed)
        return answer

    def _refusal(self, what: str, method: str, answer: object, allowed: str) -> ScenarioError:
        """The mistake of a controller, which is not one of this program."""
        policy, path = self._named
        found = repr(answer) if isinstance(answer, str) else shorten(answer)
        return ScenarioError(
            f"the speculation policy '{policy}' {what}", path=path, found=f"{method} returned {found}",
            allowed=allowed, hint="servetwin.testing.SpeculationContract tests a policy of one's own",
        )  # fmt: skip
