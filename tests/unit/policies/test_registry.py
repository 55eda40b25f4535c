"""Registration, plug-ins, and how a scenario names a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from pydantic_core import PydanticCustomError

from servetwin.errors import ScenarioError
from servetwin.policies import Kind, Policy, PolicyContext, find, load_plugins, names, parse_policy, register
from servetwin.policies.routing import PowerOfTwo, RoundRobin

PLUGIN = '''
from typing import ClassVar, Literal
from servetwin.policies import Kind, Policy, PolicyContext, register

@register
class {cls}(Policy):
    """Sends everything to the last replica.

    Source: a test.
    """

    kind: ClassVar[Kind] = "routing"
    policy: Literal["{name}"] = "{name}"
    step: int = 1

    def build(self, context: PolicyContext):
        return self

    def choose(self, request, fleet):
        return fleet.all()[-1]

    def on_routed(self, request, replica): ...
    def on_finished(self, request, replica): ...
'''


def test_a_name_a_mapping_and_an_instance_mean_the_same() -> None:
    wanted = PowerOfTwo()
    assert parse_policy("routing", "power-of-two") == wanted
    assert parse_policy("routing", {"policy": "power-of-two", "metric": "requests"}) == wanted
    assert parse_policy("routing", wanted) is wanted


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("round-robbin", "policy_unknown"),
        ({"policy": 3}, "policy_unknown"),
        ({}, "policy_missing"),
        (7, "policy_type"),
        ({"policy": "power-of-two", "metrik": "tokens"}, "policy_fields"),
        ({"policy": "power-of-two", "metric": "watts"}, "policy_fields"),
    ],
)
def test_mistakes_are_told_apart(value: object, kind: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        parse_policy("routing", value)
    assert caught.value.type == kind


def test_a_policy_of_another_kind_is_refused() -> None:
    with pytest.raises(PydanticCustomError, match="routing policy, not a scheduling policy"):
        parse_policy("scheduling", RoundRobin())


def test_a_plugin_file_registers_its_policies_and_may_be_loaded_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN.format(cls="Last", name="last-replica"))
    load_plugins([file], installed=False)
    load_plugins([file], installed=False)
    assert "last-replica" in names("routing")
    policy = parse_policy("routing", {"policy": "last-replica", "step": 2})
    assert type(policy) is find("routing", "last-replica")
    assert policy.parameters() == ["step"]


def test_a_plugin_may_not_take_a_name_that_exists(tmp_path: Path) -> None:
    file = tmp_path / "thief.py"
    file.write_text(PLUGIN.format(cls="Thief", name="round-robin"))
    with pytest.raises(ScenarioError, match="exists already") as caught:
        load_plugins([file], installed=False)
    assert caught.value.file == str(file)
    assert find("routing", "round-robin") is RoundRobin


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [("x = (", "SyntaxError", "line 1"), ("a = 1\nb = 1 / 0\n", "ZeroDivisionError", "line 2")],
)
def test_a_broken_plugin_says_where(tmp_path: Path, text: str, message: str, line: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text)
    with pytest.raises(ScenarioError, match=message) as caught:
        load_plugins([file], installed=False)
    assert caught.value.path == line


def test_a_missing_plugin_names_the_nearest_file(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text("")
    with pytest.raises(ScenarioError, match="no such plug-in") as caught:
        load_plugins([tmp_path / "polcy.py"], installed=False)
    assert caught.value.nearest == "policy.py"


def test_a_class_must_say_its_kind_name_and_rule() -> None:
    class NoKind(Policy):
        """A rule."""

        policy: Literal["no-kind"] = "no-kind"

        def build(self, context: PolicyContext) -> Any: ...

    class NoName(Policy):
        """A rule."""

        kind: ClassVar[Kind] = "routing"
        policy: str = "no-name"

        def build(self, context: PolicyContext) -> Any: ...

    class NoRule(Policy):
        kind: ClassVar[Kind] = "routing"
        policy: Literal["no-rule"] = "no-rule"

        def build(self, context: PolicyContext) -> Any: ...

    for cls, message in ((NoKind, "kind"), (NoName, "name of its own"), (NoRule, "docstring")):
        with pytest.raises(TypeError, match=message):
            register(cls)
