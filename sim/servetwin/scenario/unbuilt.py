"""What the scenario format names and this version does not have: refused, never silently ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from servetwin.errors import ScenarioError, nearest_name

OFF: tuple[object, ...] = (None, False, 0, "none", "off", "", {}, [])
"""Values that switch something off, which every version can do."""


class Unbuilt(NamedTuple):
    """An option that this version does not have.

    Attributes:
        path: where it stands; ``pool`` stands for ``cluster`` and for each of its pools.
        what: what it would be.
        neutral: the values that mean nothing special, besides those of ``OFF``.
    """

    path: str
    what: str
    neutral: tuple[object, ...] = ()


UNBUILT = (
    Unbuilt("control", "planners, autoscalers and faults"),
    Unbuilt("pool.kv_tiers", "KV cache outside the GPU"),
    Unbuilt("pool.parallel.data", "attention data parallelism inside a replica", (1,)),
    Unbuilt("pool.parallel.expert", "expert parallelism", (1,)),
)

UNBUILT_CHOICES: dict[str, dict[str, str]] = {
    "--engine": {"ray": "studies that run on a Ray cluster"},
}
"""Values of the command line's options, and what they would be."""


def check_choice(option: str, found: str, known: Sequence[str]) -> None:
    """Refuse what an option of the command line cannot be.

    Args:
        option: the option, with its dashes.
        found: what the user wrote.
        known: what this version has.

    Raises:
        ScenarioError: it is unknown, or not built yet.
    """
    if found in known:
        return
    what = UNBUILT_CHOICES.get(option, {}).get(found)
    if what is not None:
        message = f"this version of servetwin does not have {what} yet"
        raise ScenarioError(message, path=option, found=found, allowed=known)
    raise ScenarioError("unknown value", path=option, found=found, allowed=known, nearest=nearest_name(found, known))


def refuse_unbuilt(raw: dict[str, Any], file: str) -> None:
    """Refuse what this version does not have and take out what merely switches it off.

    Args:
        raw: the scenario as written, which is changed.
        file: what to name in the message.

    Raises:
        ScenarioError: with the dotted path.
    """
    for option in UNBUILT:
        for path, parent, key in _places(raw, option.path):
            value = parent.pop(key)
            if not _is_one_of(value, OFF) and not _is_one_of(value, option.neutral):
                neutral = "left out" if not option.neutral else f"{option.neutral[0]}, or left out"
                raise ScenarioError(
                    f"this version of servetwin does not have {option.what} yet",
                    file=file,
                    path=path,
                    found=value,
                    allowed=neutral,
                )


def _is_one_of(value: object, values: tuple[object, ...]) -> bool:
    """Whether a value is among others of its own type: 1 is not true, and 0 not false."""
    if isinstance(value, Mapping) and set(value) == {"method"}:
        value = value["method"]
    return any(type(value) is type(other) and value == other for other in values)


def _places(raw: dict[str, Any], pattern: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Where a pattern occurs: its dotted path, the mapping it stands in, and its key there."""
    head, _, rest = pattern.partition(".")
    starts: list[tuple[str, Any]] = [("", raw)]
    if head == "pool":
        pattern = rest
        cluster = raw.get("cluster")
        cluster = cluster if isinstance(cluster, dict) else {}
        starts = [("cluster.", cluster)]
        pools = cluster.get("pools")
        for index, pool in enumerate(pools if isinstance(pools, list) else []):
            starts.append((f"cluster.pools.{index}.", pool))
    *parents, key = pattern.split(".")
    for prefix, node in starts:
        for part in parents:
            node = node.get(part) if isinstance(node, dict) else None
        if isinstance(node, dict) and key in node:
            yield prefix + pattern, node, key
