"""Tables as text: terminal, Markdown, CSV, LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from unskew._files import atomic_path
from unskew._options import TableFormat
from unskew.bench.grids import Cell, Grid, grids
from unskew.bench.outcomes import Outcome
from unskew.bench.tables import Row, rows
from unskew.errors import SettingError

_FILES: dict[TableFormat, str] = {"markdown": "tables.md", "csv": "tables.csv", "latex": "tables.tex"}
_LATEX = {
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "$": r"\$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "|": r"$|$",
}


def render(outcomes: Sequence[Outcome]) -> Group:
    """For the terminal."""
    return render_grids([grid for outcome in outcomes for grid in grids(outcome, rows(outcome))])


def render_grids(found: Sequence[Grid]) -> Group:
    """Some tables for the terminal."""
    parts: list[Table | Text] = []
    for grid in found:
        parts += [_table(grid), Text("")]
    return Group(*parts)


def document(outcomes: Sequence[Outcome], form: TableFormat, further: Sequence[Grid] = ()) -> str:
    """All tables of a run in one of the formats, and further ones; the same run gives the same bytes."""
    if form == "csv" and further:
        raise SettingError("A CSV file holds one table: leave --times out, or ask for both with --json.")
    text = _document([(outcome, rows(outcome)) for outcome in outcomes], form)
    write = markdown if form == "markdown" else latex
    return "\n".join([text, *map(write, further)])


def _document(found: Sequence[tuple[Outcome, list[Row]]], form: TableFormat) -> str:
    if form == "csv":
        return to_csv([row for _, own in found for row in own])
    write = markdown if form == "markdown" else latex
    return "\n".join(write(grid) for outcome, own in found for grid in grids(outcome, own))


def write_tables(outcomes: Sequence[Outcome], folder: Path) -> list[Path]:
    """Every format into a run's folder."""
    found = [(outcome, rows(outcome)) for outcome in outcomes]
    written = []
    for form, name in _FILES.items():
        target = folder / name
        with atomic_path(target) as path:
            path.write_text(_document(found, form), encoding="utf-8")
        written.append(target)
    return written


def to_csv(table: Sequence[Row]) -> str:
    """One line a row, every column; empty where there is no number."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(table[0]) if table else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return out.getvalue()


def markdown(grid: Grid) -> str:
    """A pipe table: best in bold, second underlined, stars escaped."""

    def cell(c: Cell) -> str:
        text = {1: f"**{c.text}**", 2: f"<u>{c.text}</u>"}.get(c.place or 0, c.text)
        return f"{text}{chr(92) + '*' if c.star else ''}{c.spread}".replace("|", "\\|")

    left = sum(isinstance(name, str) for name in grid.lines[0][0]) if grid.lines else 2
    head = [name.replace("|", "\\|") for name in grid.header]
    lines = [f"**{grid.title}**", "", f"| {' | '.join(head)} |"]
    lines.append("|" + "|".join([" --- "] * left + [" ---: "] * (len(head) - left)) + "|")
    lines += [f"| {' | '.join([*names, *map(cell, cells)])} |" for names, cells in grid.lines]
    return "\n".join([*lines, "", *(f"{line}  " for line in grid.caption.splitlines()), ""])


def latex(grid: Grid) -> str:
    """A booktabs table."""

    def cell(c: Cell) -> str:
        text = {1: rf"\textbf{{{tex(c.text)}}}", 2: rf"\underline{{{tex(c.text)}}}"}.get(c.place or 0, tex(c.text))
        return f"{text}{'${^*}$' if c.star else ''}{tex(c.spread)}"

    columns = "ll" + "r" * (len(grid.header) - 2)
    body = [" & ".join([*map(tex, names), *map(cell, cells)]) + r" \\" for names, cells in grid.lines]
    return "\n".join(
        [
            r"\begin{table}",
            rf"  \caption{{{tex(' '.join([grid.title + '.', *grid.caption.splitlines()]))}}}",
            r"  \centering",
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            "    " + " & ".join(map(tex, grid.header)) + r" \\",
            r"    \midrule",
            *(f"    {line}" for line in body),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def tex(text: str) -> str:
    r"""Text with LaTeX's own characters written out.

    >>> tex("5 % ± 1")
    '5 \\% $\\pm$ 1'
    """
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _table(grid: Grid) -> Table:
    table = Table(title=grid.title, title_justify="left", caption=grid.caption or None, caption_justify="left")
    for place, name in enumerate(grid.header):
        table.add_column(name, justify="left" if place < 2 else "right", no_wrap=place < 2)
    before = None
    for names, cells in grid.lines:
        if before not in (None, names[0]) and names[0]:
            table.add_section()
        before = names[0] or before
        table.add_row(*names, *map(_text, cells))
    return table


def _text(cell: Cell) -> Text:
    style = {1: "bold", 2: "underline"}.get(cell.place or 0, "")
    return Text.assemble((cell.text, style), ("*" if cell.star else "", "bold"), (cell.spread, "dim"))
