"""servetwin: a discrete-event simulator of LLM-serving clusters.

>>> import servetwin
>>> result = servetwin.run("quickstart", run__requests=200)
>>> result.summary()["completed"]
200
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from servetwin import compiled

if TYPE_CHECKING:
    from servetwin.errors import InputError, Interrupted, InvariantError, ServetwinError
    from servetwin.results.result import Result
    from servetwin.scenario.load import load_scenario
    from servetwin.scenario.run import run
    from servetwin.scenario.schema import Scenario

__version__ = "0.1.0"

# Before any other module of the package is imported.
compiled.install()

# Loaded when first asked for: the command line answers --help without the simulator.
_HOME = {
    "InputError": "servetwin.errors",
    "Interrupted": "servetwin.errors",
    "InvariantError": "servetwin.errors",
    "Result": "servetwin.results.result",
    "Scenario": "servetwin.scenario.schema",
    "ServetwinError": "servetwin.errors",
    "load_scenario": "servetwin.scenario.load",
    "run": "servetwin.scenario.run",
}

__all__ = [
    "InputError",
    "Interrupted",
    "InvariantError",
    "Result",
    "Scenario",
    "ServetwinError",
    "__version__",
    "load_scenario",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'servetwin' has no attribute '{name}'")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
