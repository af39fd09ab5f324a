"""The report's model as one HTML file: nothing is loaded, nothing but its own script runs.

The page carries a Content-Security-Policy that names the hashes of its one style and one script
and forbids everything else, so that markup smuggled in through a history could neither run nor
call home even if it escaped the escaping.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from reports import findings, text
from reports.model import ReportModel

SCRIPTS = (
    *("common.js", "data.js", "blocks.js", "choice.js", "grid.js", "view.js", "draw.js"),
    *("plots.js", "hover.js", "table.js", "pictures.js", "page.js"),
)
_SIZE = "\x01size\x01"  # no foreign text can hold a control character
_TEMPLATE = "run.html"


def render(model: ReportModel) -> str:
    """The report as a complete HTML document; equal models give equal text."""
    out = page(
        _TEMPLATE,
        styles=("run.css", "pictures.css"),
        scripts=SCRIPTS,
        data=model.timeline,
        filters={
            "seconds": text.seconds,
            "duration": text.duration,
            "count": text.count,
            "over": findings.last_moment,
        },
        model=model,
        size=Markup(_SIZE),  # noqa: S704 - filled in below
    )
    return _sized(out)


def _sized(out: str) -> str:
    """The document with its own length in bytes where it is to stand."""
    bare = len(out.replace(_SIZE, "").encode())
    size = f"{bare:,}"
    while (whole := f"{bare + len(size) * out.count(_SIZE):,}") != size:
        size = whole
    return out.replace(_SIZE, size)


def page(
    template: str,
    *,
    styles: Sequence[str],
    scripts: Sequence[str],
    data: Any,
    filters: Mapping[str, Callable[..., Any]],
    **shown: Any,
) -> str:
    """A complete HTML document from assets of ours and what is to be shown, which is escaped.

    Args:
        template: The name of its template.
        styles: The names of its style sheets, which become one.
        scripts: The names of its scripts, which become one function: nothing is global.
        data: JSON for the script.
        filters: What the template may ask of values.
        shown: What else the template shows.
    """
    style = "".join(map(_asset, styles))
    script = f'(() => {{\n"use strict";\n{"".join(map(_asset, scripts))}}})();\n'
    return _template(template, tuple(filters.items())).render(
        **shown,
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704 - our own files
        policy=policy(style=style, script=script),
        data=Markup(embed(data)),  # noqa: S704 - made safe by embed
    )


def policy(*, style: str, script: str) -> str:
    """A policy that allows exactly this style and this script, and no connection at all."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_digest(script)}",
            f"style-src {_digest(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def embed(data: Any) -> str:
    """JSON that cannot end the script element it stands in; keys are sorted."""
    out = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        out = out.replace(char, f"\\u{ord(char):04x}")
    return out


def _digest(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    return (files("reports") / "templates" / name).read_text(encoding="utf-8")


@cache
def _template(name: str, filters: tuple[tuple[str, Callable[..., Any]], ...]) -> Template:
    env = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters.update(filters)
    return env.get_template(name)
