"""Compiled or run from source, a simulation leaves the same bytes behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.properties.test_determinism import BUSY, FILES, HOST_KEYS, SESSIONS

from servetwin import compiled

#: Preemption and classes; sessions in a closed loop; attention windows and experts; a shared prefix under pressure.
CASES: dict[str, Any] = {
    "busy": BUSY,
    "sessions": SESSIONS,
    "windows": BUSY | {"name": "windows", "model": "gpt-oss-20b", "router": {"policy": "least-tokens"}},
    "pipeline": BUSY
    | {
        "name": "pipeline",
        "cluster": BUSY["cluster"]
        | {"parallel": {"pipeline": 3}, "engine": BUSY["cluster"]["engine"] | {"pipeline_batches": "balanced"}},
    },
    "drafting": BUSY
    | {
        "name": "drafting",
        "cluster": BUSY["cluster"]
        | {
            "speculation": {
                "method": "eagle3",
                "k": 5,
                "acceptance": {"survival": [0.7, 0.5, 0.4]},
                "controller": {"policy": "ema-tiers", "interval": 2, "warmup": 3},
            },
        },
    },
    "lookups": BUSY
    | {
        "name": "lookups",
        "cluster": BUSY["cluster"]
        | {"speculation": {"method": "ngram", "k": 4, "acceptance": {"rate": 0.7, "proposal": 0.5}}},
    },
    "stepwise": BUSY | {"name": "stepwise", "run": {"requests": 40, "stepping": "every-operation"}},
}

SCRIPT = """
import json, sys
from pathlib import Path
import servetwin
from servetwin import compiled
from servetwin.engine import rank
for name, case in json.loads(sys.argv[1]).items():
    servetwin.run(case, out=Path(sys.argv[2]) / name, timeline=True)
print(json.dumps([compiled.in_use(), rank.__file__.endswith(".py")]))
"""


def leavings(out: Path, *, compile: bool) -> dict[str, Any]:
    """What the runs write, by scenario and file, from a process with or without compiled modules."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(CASES), str(out)],
        env=os.environ | {"SERVETWIN_COMPILED": "1" if compile else "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [compile, not compile]
    found: dict[str, Any] = {}
    for name in CASES:
        summary = json.loads((out / name / "summary.json").read_text(encoding="utf-8"))
        found[f"{name}/summary.json"] = {key: value for key, value in summary.items() if key not in HOST_KEYS}
        for file in FILES:
            found[f"{name}/{file}"] = (out / name / file).read_bytes()
    return found


@pytest.mark.skipif(not compiled.in_use(), reason="this installation has no compiled modules, or they are switched off")
def test_the_same_bytes(tmp_path: Path) -> None:
    """Summary, requests, time series, ledger and timeline are equal to the last bit."""
    one, other = (leavings(tmp_path / str(choice), compile=choice) for choice in (True, False))
    assert [name for name in one if one[name] != other[name]] == []
