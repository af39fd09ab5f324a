"""JUnit XML, as CI systems read it: suites of cases, each passed, failed or broken."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

# What XML 1.0 cannot hold, however it is escaped (section 2.2, Char).
_UNSAYABLE: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that was tried. ``failure``: it is wrong; ``error``: it could not be judged."""

    name: str
    elapsed_s: float = 0.0
    failure: str | None = None
    error: str | None = None
    output: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """Cases that belong together."""

    name: str
    cases: tuple[Case, ...]


def to_xml(suites: Iterable[Suite]) -> bytes:
    """The document; what XML cannot hold is shown as U+FFFD."""
    root = Element("testsuites")
    for suite in suites:
        of_suite = SubElement(
            root,
            "testsuite",
            name=_clean(suite.name),
            tests=str(len(suite.cases)),
            failures=str(sum(case.failure is not None for case in suite.cases)),
            errors=str(sum(case.error is not None for case in suite.cases)),
            time=f"{sum(case.elapsed_s for case in suite.cases):.3f}",
        )
        for case in suite.cases:
            of_case = SubElement(
                of_suite,
                "testcase",
                classname=_clean(suite.name),
                name=_clean(case.name),
                time=f"{case.elapsed_s:.3f}",
            )
            for kind, text in (("failure", case.failure), ("error", case.error)):
                if text is not None:
                    first = text.strip().partition("\n")[0]
                    SubElement(of_case, kind, message=_clean(first)).text = _clean(text)
            if case.output:
                SubElement(of_case, "system-out").text = _clean(case.output)
    indent(root)
    body: bytes = tostring(root, "utf-8")
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + body + b"\n"


def _clean(text: str) -> str:
    return _UNSAYABLE.sub("\ufffd", text)
