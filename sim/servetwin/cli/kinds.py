"""The kinds of things that ``list`` and ``show`` know, by any of their names."""

from __future__ import annotations

from servetwin.errors import InputError, nearest_name

POLICIES = "policies"
TECHNIQUES = "techniques"

KINDS = {
    "hardware": "GPUs",
    "models": "shapes and precisions of models",
    "scenarios": "what to simulate",
    "workloads": "arrivals and lengths of requests",
    POLICIES: "scheduling, routing, admission and speculation",
    TECHNIQUES: "what compare --toggle switches off and on",
    "calibrations": "how near to the data sheet kernels come, and what an engine adds",
    "nodes": "servers, and racks that are one link domain",
    "links": "NVLink, PCIe and networks",
    "storage": "host memory and drives",
    "acceptance": "how many drafted tokens stand: data sets and models",
}
"""Every kind, and what it is."""

_OTHER_NAMES = {
    "gpu": "hardware",
    "gpus": "hardware",
    "model": "models",
    "scenario": "scenarios",
    "workload": "workloads",
    "policy": POLICIES,
    "technique": TECHNIQUES,
    "calibration": "calibrations",
    "node": "nodes",
    "server": "nodes",
    "servers": "nodes",
    "link": "links",
    "nic": "links",
    "nics": "links",
    "storages": "storage",
    "drives": "storage",
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
