"""One self-contained page: content as small dataclasses in, HTML out. Everything that comes from data is escaped."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from json import dumps
from typing import Any, Literal

from unskew._files import atomic_path
from unskew.deploy.manifest import plain
from unskew.report.figures import VEGA_LITE, spec_of
from unskew.report.panels import Panel
from unskew.report.themes import DARK, HUES, LIGHT, PAGE, Style, styles_of

# What page.js needs of the libraries.
_GLOBALS = "window.vegaEmbed = vegaEmbed;"


@dataclass(frozen=True)
class Cell:
    """One cell of a table: its text, what it is sorted by (a number, or its text), and what stands small below it.

    strong, second : the best of a table, and the second best.
    """

    text: str
    value: float | str | None = None
    note: str = ""
    strong: bool = False
    second: bool = False


@dataclass(frozen=True)
class Table:
    """A sortable table; `numeric` says which columns are numbers. `open` False folds it away behind its title."""

    title: str
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    open: bool = True
    kind: Literal["table"] = "table"


@dataclass(frozen=True, eq=False)
class Figures:
    """Panels side by side, with one legend for all."""

    panels: tuple[Panel, ...]
    wide: bool = False
    kind: Literal["figures"] = "figures"

    @property
    def legend(self) -> dict[str, Style]:
        return styles_of(name for panel in self.panels for name in panel.methods)


@dataclass(frozen=True)
class Findings:
    """Things to know: level (fine, weak or bad), what about, and the sentence."""

    items: tuple[tuple[str, str, str], ...]
    kind: Literal["findings"] = "findings"


@dataclass(frozen=True)
class Facts:
    """Names and values."""

    items: tuple[tuple[str, str], ...]
    kind: Literal["facts"] = "facts"


@dataclass(frozen=True)
class Commands:
    """Lines to copy."""

    lines: tuple[str, ...]
    kind: Literal["commands"] = "commands"


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: Literal["text"] = "text"


Block = Table | Figures | Findings | Facts | Commands | Text


@dataclass(frozen=True)
class Section:
    """A part of the page: `lead` is the sentence below its title, `link` its name in the list of parts."""

    name: str
    title: str
    lead: str
    blocks: tuple[Block, ...]
    link: str = ""


@dataclass(frozen=True)
class Page:
    """What a page says.

    asked : what was to be found out; answer : what came out, in two sentences of plain words.
    numbers : the few that matter: (number, what it is).
    made : versions, seed and time, for the foot of the page.
    level : how the answer is to be taken.
    """

    title: str
    kicker: str
    asked: str
    answer: tuple[str, ...]
    numbers: tuple[tuple[str, str], ...]
    sections: Sequence[Section]
    made: tuple[str, ...] = field(default=())
    level: Literal["fine", "weak", "bad"] = "fine"

    def to_dict(self) -> dict[str, Any]:
        """What the page says, for the command line: its answer, how that is to be taken, and every finding."""
        blocks = (block for section in self.sections for block in section.blocks if isinstance(block, Findings))
        found = [dict(zip(("level", "about", "text"), item)) for block in blocks for item in block.items]
        return {"title": self.title, "answer": list(self.answer), "level": self.level, "findings": found}


def write_page(page: Page, path: str | os.PathLike[str]) -> None:
    """Write the page as one file that loads nothing."""
    content = render_page(page).encode()
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def render_page(page: Page) -> str:
    """The page as HTML."""
    specs: list[dict[str, Any]] = []

    def chart(panel: Panel) -> int:
        """Remember a panel's chart; its number."""
        spec = spec_of(panel.sized("container"), PAGE)
        specs.append({**spec, "autosize": {"type": "fit-x", "contains": "padding"}})
        return len(specs) - 1

    libraries, script = _libraries(), _asset("page.js")
    body = _template("body.html").render(page=page, chart=chart)
    return _template("page.html").render(
        page=page,
        style=_palette() + _asset("page.css"),
        body=body,
        # Only these two scripts may run, and nothing is loaded: what got past the escaping still could not act.
        allowed=" ".join(f"'sha256-{_hash(text)}'" for text in (libraries, script)),
        libraries=libraries,
        script=script,
        specs=json_in_html(specs),
    )


def json_in_html(value: Any) -> str:
    """JSON that can stand inside a script element: nothing in it can end the element or start another.

    >>> json_in_html({"a": "</script>", "b": float("nan")})
    '{"a": "\\\\u003c/script\\\\u003e", "b": null}'
    """
    text = dumps(plain(value), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


@cache
def _libraries() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    import vl_convert

    # The end of a script element inside a string of the library would end the script.
    return vl_convert.javascript_bundle(_GLOBALS, vl_version=VEGA_LITE).replace("</script", "<\\/script")


@cache
def _asset(name: str) -> str:
    return (files("unskew.report") / "templates" / name).read_text(encoding="utf-8")


@cache
def _template(name: str) -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("unskew.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_unbroken,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _unbroken(value: Any) -> Any:
    """Text whose lines do not break between a number and its sign."""
    return value.replace(" %", "\u00a0%").replace("± ", "±\u00a0") if type(value) is str else value


def _palette() -> str:
    """The themes' colours as the page's variables: light, dark where the reader's system is, light again on paper."""

    def rules(theme: Any) -> str:
        own = {"ink": theme.ink, "muted": theme.muted, "line": theme.grid, "paper": theme.paper}
        own |= {f"hue-{hue}": theme[hue] for hue in HUES}
        return ":root{" + "".join(f"--{name}:{colour};" for name, colour in own.items()) + "}\n"

    return f"{rules(LIGHT)}@media screen and (prefers-color-scheme: dark){{{rules(DARK)}}}\n"
