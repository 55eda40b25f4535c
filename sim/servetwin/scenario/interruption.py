"""What Ctrl-C and SIGTERM do at each stage of a run, so that no finished work is lost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE_S = 5.0
"""How long after the first signal another one no longer waits for the event under way."""


class Stopped(KeyboardInterrupt):
    """A signal that ends the program where it is.

    Attributes:
        signal_number: which one.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class Stage(Enum):
    """Where a run is, which decides what a signal does.

    ``BUILDING``: nothing is finished yet, the first signal ends the program. ``SIMULATING``: the run ends between
    two events. ``SAVING``: results are being written, which is finished first. ``DRAWING``: the tables are
    written, and the picture or time line under way is given up.
    """

    BUILDING = auto()
    SIMULATING = auto()
    SAVING = auto()
    DRAWING = auto()


class Interruption:
    """A context in which the first signal is obeyed as the stage allows, and further ones are not counted.

    In a thread other than the main one, which gets no signals, it does nothing.

    Attributes:
        number: the first signal; None = none yet.
        given_up: the signal that gave up an event under way; None = none.
        stage: where the run is.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.given_up: int | None = None
        self.stage = Stage.BUILDING
        self._stop: Callable[[], None] | None = None
        self._first_s = 0.0
        self._noted = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # A handler that was not set from Python cannot be put back.
                if signal.getsignal(number) is not None:
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def simulate(self, stop: Callable[[], None]) -> None:
        """From here on the first signal calls ``stop``, which must be safe to call between any two instructions."""
        self._stop = stop
        self.stage = Stage.SIMULATING

    def save(self) -> None:
        """From here on a signal is only noted."""
        self.stage = Stage.SAVING
        self._noted = False

    def draw(self) -> None:
        """From here on the first signal ends the stage; one that came while tables were written does so at once.

        Raises:
            Stopped: the signal.
        """
        self.stage = Stage.DRAWING
        if self._noted and self.number is not None:
            self.stage = Stage.SAVING
            raise Stopped(self.number)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        first = self.number is None
        if first:
            self.number, self._first_s = number, time.monotonic()
        if self.stage is Stage.SIMULATING:
            if first and self._stop is not None:
                self._stop()
            elif time.monotonic() - self._first_s > _PATIENCE_S:
                self.given_up = number
                raise Stopped(number)
        elif self.stage is Stage.SAVING:
            self._noted = True
        elif first or self.stage is Stage.DRAWING:
            # The next one must not come in the way of what is being done about this one.
            self.stage = Stage.SAVING
            raise Stopped(number)
