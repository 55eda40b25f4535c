"""How one scenario builds on another: mappings merge, named list entries merge by name, the rest is replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servetwin.workload.rules import BESIDE_TRACE

SELECTORS = ("policy", "process", "distribution", "kind", "method", "type", "format")
"""Keys that say which kind of thing a mapping is; another kind replaces the mapping, for its fields differ."""

ALTERNATIVES = ("rate", "survival", "recorded", "preset")
"""Keys of which a mapping has one: another one replaces the mapping too."""

_MODIFIERS = ("max_tokens", "ignore_eos")
"""Of what has no effect beside a trace, what says too little to replace one."""


def deep_merge(base: Mapping[str, Any], child: Mapping[str, Any]) -> dict[str, Any]:
    """``child`` over ``base``; neither is changed.

    >>> old = {"router": {"policy": "power-of-two", "metric": "tokens"}}
    >>> deep_merge(old, {"router": {"policy": "random"}})
    {'router': {'policy': 'random'}}
    >>> deep_merge({"pools": [{"name": "a", "replicas": 1}]}, {"pools": [{"name": "a", "replicas": 2}]})
    {'pools': [{'name': 'a', 'replicas': 2}]}
    """
    merged = dict(base)
    for key, value in child.items():
        old = merged.get(key)
        if key == "workload" and isinstance(old, Mapping) and isinstance(value, Mapping):
            old = _without_the_other_kind(old, value)
        merged[key] = _merge_value(old, value)
    return merged


def _merge_value(old: Any, new: Any) -> Any:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if any(key in new and key in old and new[key] != old[key] for key in SELECTORS) or _is_alternative(old, new):
            return new
        return deep_merge(old, new)
    if _is_named(old) and _is_named(new):
        return _merge_named(old, new)
    return new


def _is_alternative(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether the new mapping has one of ``ALTERNATIVES``, and the old one another."""
    ways = [{key for key in ALTERNATIVES if key in mapping} for mapping in (old, new)]
    return all(ways) and ways[0] != ways[1]


def _is_named(value: Any) -> bool:
    """Whether a value is a list of mappings that all have a name."""
    return isinstance(value, list) and bool(value) and all(isinstance(e, Mapping) and "name" in e for e in value)


def _merge_named(old: list[Any], new: list[Any]) -> list[Any]:
    by_name = {entry["name"]: entry for entry in old}
    for entry in new:
        by_name[entry["name"]] = _merge_value(by_name.get(entry["name"]), entry)
    return list(by_name.values())


def _without_the_other_kind(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """A trace replaces synthetic requests and the other way round; both at once would contradict each other."""
    if "trace" in new and "trace" not in old:
        kept = {key: value for key, value in old.items() if key not in BESIDE_TRACE}
        if isinstance(kept.get("classes"), list):
            kept["classes"] = [_for_a_trace(entry) for entry in kept["classes"]]
        return kept
    if "trace" in old and "trace" not in new and any(key in new for key in BESIDE_TRACE if key not in _MODIFIERS):
        return {key: value for key, value in old.items() if key != "trace"}
    return dict(old)


def _for_a_trace(entry: Any) -> Any:
    """A class of requests for a trace, which has arrivals, lengths and contents itself."""
    if not isinstance(entry, Mapping):
        return entry
    return {key: value for key, value in entry.items() if key not in BESIDE_TRACE}
