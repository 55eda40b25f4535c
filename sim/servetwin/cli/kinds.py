"""The kinds of things that ``list`` and ``show`` know, by any of their names."""

from __future__ import annotations

from servetwin.errors import InputError, nearest_name

POLICIES = "policies"
KINDS = ("hardware", "models", "scenarios", "workloads", POLICIES, "calibrations")
_OTHER_NAMES = {
    "gpu": "hardware",
    "gpus": "hardware",
    "model": "models",
    "scenario": "scenarios",
    "workload": "workloads",
    "policy": POLICIES,
    "calibration": "calibrations",
}


def kind_of(text: str) -> str:
    """The kind that the user means, singular or plural.

    Raises:
        InputError: there is no such kind.
    """
    name = text.casefold()
    name = _OTHER_NAMES.get(name, name)
    if name not in KINDS:
        raise InputError(
            "there is no such kind of thing",
            path="KIND",
            found=text,
            allowed=KINDS,
            nearest=nearest_name(text, [*KINDS, *_OTHER_NAMES]),
        )
    return name
