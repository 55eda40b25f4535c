"""The results of the bundled scenarios are those of the last time.

Counts are compared with ``==``. Other figures may differ by one part in 10⁹: arrivals and lengths come from numpy's
logarithms and powers, whose last bit depends on the processor and numpy's version, and a picosecond more or less in an
arrival is a part in 10⁹ of a latency of a millisecond. A change of the model, however small, moves them by far more.
If a new numpy draws other random numbers, everything differs, and ``python tests/golden/regenerate.py`` is due.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tests.golden import measure

RELATIVE = 1e-9


def differences(now: dict[str, Any], then: dict[str, Any]) -> list[str]:
    """Every number that is not what it was."""
    found = []
    for part in ("counts", "figures", "gpu_seconds"):
        assert now[part].keys() == then[part].keys(), "run python tests/golden/regenerate.py"
        for key, new in now[part].items():
            old = then[part][key]
            exact = part == "counts" or new is None or old is None
            same = new == old if exact else new == pytest.approx(old, rel=RELATIVE, abs=1e-15)
            if not same:
                found.append(f"{key}: {new}, was {old}")
    return found


@pytest.mark.parametrize("name", measure.scenarios())
def test_golden(name: str) -> None:
    assert not differences(measure.golden(name), measure.stored(name))


def test_there_is_a_file_for_each_scenario() -> None:
    assert sorted(path.stem for path in measure.FOLDER.glob("*.json")) == sorted(measure.scenarios())


def test_the_comparison_can_fail() -> None:
    then = measure.stored("quickstart")
    one_more = then | {"counts": then["counts"] | {"steps": then["counts"]["steps"] + 1}}
    assert len(differences(one_more, then)) == 1
    slower = then | {"figures": then["figures"] | {"tpot_ms.mean": then["figures"]["tpot_ms.mean"] * (1 + 1e-8)}}
    assert len(differences(slower, then)) == 1
    assert not differences(then, then)


def test_the_command_is_there() -> None:
    """It can be imported and started as the message says; it is not run here, for it writes into the repository."""
    command = f"import runpy; runpy.run_path({str(measure.FOLDER / 'regenerate.py')!r}, run_name='read')"
    subprocess.run([sys.executable, "-c", command], check=True)
