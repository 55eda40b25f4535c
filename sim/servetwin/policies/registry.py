"""Policies by name: the base class, and the registry.

One class is configuration, validation, registration and factory at once. A scenario names it after
``policy:`` and may set its fields; ``build`` makes the object that the engine or the gateway calls. A policy
of one's own is such a class in a file given with ``--plugin``, or in a package with an entry point in the
group ``servetwin.policies``:

>>> from typing import ClassVar, Literal
>>> from servetwin.policies import Kind, Policy, PolicyContext
>>> class First(Policy):
...     '''Sends everything to the first replica.'''
...     kind: ClassVar[Kind] = "routing"
...     policy: Literal["first"] = "first"
...     def build(self, context: PolicyContext) -> "FirstRouter":
...         return FirstRouter()
>>> class FirstRouter:
...     def choose(self, request, fleet): return fleet.all()[0]
...     def on_routed(self, request, replica): pass
...     def on_finished(self, request, replica): pass

To make it known, put ``@servetwin.policies.register`` above the class.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer
from pydantic_core import PydanticCustomError

from servetwin.streams import Streams

Kind = Literal["scheduling", "routing", "admission", "speculation", "disaggregation"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """What a policy may know when it is built.

    Attributes:
        streams: named random streams of the run; draw from ``streams.uniforms("router", …)``.
        replicas: replicas of the cluster at the start.
        seats: requests that the cluster can run at once: the sum of ``max_num_seqs`` over its replicas.
    """

    streams: Streams
    replicas: int
    seats: int


class Policy(BaseModel):
    """Base of every policy. A subclass's docstring is its documentation: rule, source, every field with its unit."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    #: What the policy decides.
    kind: ClassVar[Kind]
    #: The name that a scenario writes; a subclass narrows it to one literal, which is also the default.
    policy: str

    @abstractmethod
    def build(self, context: PolicyContext) -> Any:
        """The ``Scheduler``, ``Router``, ``Admission``, ``DraftController`` or ``Decider``: one for every engine or
        gateway."""

    @model_serializer(mode="wrap")
    def _with_name(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The fields, and the name even where only what was set is asked for: nothing can be read without it."""
        return {"policy": self.policy, **fields(self)}

    @classmethod
    def name(cls) -> str:
        """The name that a scenario writes."""
        return str(cls.model_fields["policy"].default)

    @classmethod
    def parameters(cls) -> list[str]:
        """The names of the fields that a scenario may set."""
        return [field for field in cls.model_fields if field != "policy"]


_POLICIES: dict[Kind, dict[str, type[Policy]]] = {kind: {} for kind in KINDS}


P = TypeVar("P", bound=Policy)


def register(cls: type[P]) -> type[P]:
    """Make a policy known under its name; used as a class decorator.

    Raises:
        TypeError: the class lacks its kind, its literal name or its docstring, or the name is taken.
    """
    if getattr(cls, "kind", None) not in KINDS:
        raise TypeError(f"{cls.__name__}.kind must be one of {', '.join(KINDS)}")
    name = cls.name()
    if get_args(cls.model_fields["policy"].annotation) != (name,):
        raise TypeError(f'{cls.__name__} needs a name of its own: policy: Literal["…"] = "…"')
    if not cls.__dict__.get("__doc__"):
        raise TypeError(f"{cls.__name__} needs a docstring that says its rule and its source")
    known = _POLICIES[cls.kind].get(name)
    if known is not None and (known.__module__, known.__name__) != (cls.__module__, cls.__name__):
        raise TypeError(f"the {cls.kind} policy '{name}' exists already: {known.__module__}.{known.__name__}")
    _POLICIES[cls.kind][name] = cls
    return cls


def names(kind: Kind) -> list[str]:
    """The names of all known policies of a kind, in the order in which they were registered."""
    return list(_POLICIES[kind])


def find(kind: Kind, name: str) -> type[Policy]:
    """The policy class of a name; raises ``KeyError`` if there is none."""
    return _POLICIES[kind][name]


def union(kind: Kind) -> tuple[type[Policy], ...]:
    """Every known policy class of a kind."""
    return tuple(_POLICIES[kind].values())


def parse_policy(kind: Kind, value: object) -> Policy:
    """The policy that a scenario means: a name, a mapping with ``policy:``, or an instance.

    Raises:
        PydanticCustomError: understood by the translation of validation errors in ``servetwin.scenario``;
            ``policy_fields`` carries the errors of the policy's own fields.
    """
    if isinstance(value, Policy):
        if value.kind != kind:
            raise PydanticCustomError("policy_kind", f"this is a {value.kind} policy, not a {kind} policy")
        return value
    fields: Mapping[str, object] = {"policy": value} if isinstance(value, str) else _mapping(value)
    name = fields.get("policy")
    if name is None:
        raise PydanticCustomError("policy_missing", "the name of the policy is missing", {"names": names(kind)})
    if not isinstance(name, str) or name not in _POLICIES[kind]:
        raise PydanticCustomError(
            "policy_unknown", "unknown policy", {"kind": kind, "found": str(name), "names": names(kind)}
        )
    try:
        return _POLICIES[kind][name].model_validate(dict(fields))
    except ValidationError as error:
        details = {"errors": error.errors(), "policy": name, "fields": _POLICIES[kind][name].parameters()}
        raise PydanticCustomError("policy_fields", "wrong parameters", details) from None


def _mapping(value: object) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return value
    raise PydanticCustomError("policy_type", "expected the name of a policy, or a mapping with 'policy:'")
