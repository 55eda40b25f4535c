"""The verdicts of a check as JUnit XML, the format in which CI systems read results of tests.

A scenario is a test suite; in it each assertion is a test, and each metric that was compared with the baseline. The
elements and attributes are those that the common schemas of Jenkins and of Ant's JUnit task have in common.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from xml.etree import ElementTree as ET

from servetwin.report.check_rows import beside, change, found, tolerance
from servetwin.report.units import number

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may have, however they are written."""

_HOST = "localhost"


def junit(document: Mapping[str, Any], seconds: Mapping[str, float], started: datetime) -> str:
    """The document of a check as JUnit XML.

    Args:
        document: the document.
        seconds: by scenario, how long its runs took [s].
        started: when the check began.
    """
    suites = ET.Element("testsuites", name=_clean(f"servetwin check {document['suite']}"))
    for entry in document["entries"]:
        cases = [*_assertions(document, entry), *_metrics(document, entry)]
        _suite(suites, document, entry["name"], cases, seconds.get(entry["name"], 0.0), started)
    for name in document["unfinished"]:
        case = ET.Element("testcase", name="runs to its end")
        ET.SubElement(case, "skipped", message="interrupted before all of its runs had ended")
        _suite(suites, document, name, [case], seconds.get(name, 0.0), started)
    for key in ("tests", "failures", "errors", "skipped"):
        suites.set(key, str(sum(int(suite.get(key, "0")) for suite in suites)))
    suites.set("time", f"{sum(seconds.values()):.3f}")
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _suite(
    parent: ET.Element, document: Mapping[str, Any], name: str, cases: list[ET.Element], time: float, started: datetime
) -> None:
    suite = ET.SubElement(
        parent, "testsuite", id=str(len(parent)), name=_clean(name), package=_clean(document["suite"]),
        hostname=_HOST, timestamp=started.strftime("%Y-%m-%dT%H:%M:%S"), time=f"{time:.3f}", tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)), errors="0",
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
    )  # fmt: skip
    ET.SubElement(suite, "properties")
    for case in cases:
        case.set("classname", _clean(f"{document['suite']}.{name}"))
        # The runs of a scenario decide all of its tests together.
        case.set("time", f"{time / len(cases):.3f}")
        suite.append(case)
    own = (text for text in beside(document) if text.startswith(f"{name}: "))
    ET.SubElement(suite, "system-out").text = _clean("\n".join(own))
    ET.SubElement(suite, "system-err").text = ""


def _assertions(document: Mapping[str, Any], entry: Mapping[str, Any]) -> Iterator[ET.Element]:
    for one in document["assertions"]:
        if one["name"] == entry["name"]:
            case = ET.Element("testcase", name=_clean(one["assertion"]))
            if not one["passed"]:
                _fail(case, "assertion", f"{one['assertion']} does not hold: {found(one)}")
            yield case


def _metrics(document: Mapping[str, Any], entry: Mapping[str, Any]) -> Iterator[ET.Element]:
    worse = {row["metric"]: row for row in document["regressions"] if row["name"] == entry["name"]}
    for metric in entry["compared"]:
        case = ET.Element("testcase", name=_clean(f"{metric} is as in the baseline"))
        if metric in worse:
            row = worse[metric]
            values = f"{number(row['before'])} to {number(row['after'])}"
            text = f"{metric} of {row['name']} went from {values}: {change(row)}, tolerated {tolerance(row)}"
            _fail(case, "regression", text)
        yield case


def _fail(case: ET.Element, kind: str, text: str) -> None:
    ET.SubElement(case, "failure", type=kind, message=_clean(text)).text = _clean(text)


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)
