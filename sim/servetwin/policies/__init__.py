"""Policies: scheduling (order of an engine's queue), routing (which replica), admission (whether at all), speculation
(how many tokens are drafted), disaggregation (whether prefill and decode are on different replicas).

Every policy is one module; its docstring says the rule, the source and the fields.
"""

from __future__ import annotations

from servetwin.policies import admission, disaggregation, routing, scheduling, speculation
from servetwin.policies.plugins import load_plugins, plugin_behind
from servetwin.policies.registry import (
    KINDS,
    Kind,
    Policy,
    PolicyContext,
    find,
    names,
    parse_policy,
    register,
    union,
)

__all__ = [
    "KINDS",
    "Kind",
    "Policy",
    "PolicyContext",
    "admission",
    "disaggregation",
    "find",
    "load_plugins",
    "names",
    "parse_policy",
    "plugin_behind",
    "register",
    "routing",
    "scheduling",
    "speculation",
    "union",
]
