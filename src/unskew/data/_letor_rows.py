"""Rows of LETOR text to arrays: a quick way for regular pieces, a careful one that explains what is wrong.

The quick way turns a piece of text into one `id:value` a line and lets polars parse the two columns. Whatever it cannot
vouch for goes to the careful way, line by line, which either parses it too or says which line is wrong and why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from unskew._segments import IntArray
from unskew.data._letor_lines import INFINITE_WORD, START, Rules, Tokens, parse_grade, parse_lines
from unskew.data._pieces import Piece
from unskew.errors import FeatureError, GradeError

# A piece of text may unfold to this many times its size (rows × features), or to the floor below.
MAX_EXPANSION = 100
EXPANSION_FLOOR = 256 << 20

_HEAD = re.compile(rb"\n[ \n]*([^\s:]+) +qid:(\S+)")
_COMMENT_LINE = re.compile(rb"\n *#[^\n]*")
_COMMENT = re.compile(rb"#[^\n]*")
_BLANK_LINES = re.compile(rb"\n[ \n]*\n")
_DOCID = re.compile(rb"#[ ]*docid *= *(\S+)")


@dataclass(frozen=True)
class Block:
    """The rows of one piece.

    features : (rows, d) float32, d = the largest feature in this piece.
    grades : (rows,) int16.
    query_ids, query_sizes : runs of rows of one query, in the order of the file.
    item_ids : the docids of the comments, if every row has one.
    full : whether every row names every feature 1 … d in order.
    """

    features: npt.NDArray[np.float32]
    grades: IntArray
    query_ids: list[bytes]
    query_sizes: IntArray
    item_ids: list[bytes] | None
    full: bool


def parse_piece(piece: Piece, rules: Rules) -> Block | None:
    """The rows of a piece of text, or None if it holds only comments and blank lines.

    >>> block = parse_piece(Piece("a.txt", b"2 qid:7 1:0.5 3:1 # docid = a\\n0 qid:7 2:4\\n", 1), Rules())
    >>> block.features
    array([[0.5, 0. , 1. ],
           [0. , 4. , 0. ]], dtype=float32)
    >>> block.grades, block.query_ids, block.query_sizes
    (array([2, 0], dtype=int16), [b'7'], array([2]))
    """
    text, item_ids = _plain(b"\n" + piece.text)
    if not text.strip():
        return None
    tokens = _quick(text, rules)
    if tokens is None:
        tokens = parse_lines(piece, rules)
    rows = len(tokens.qids)
    qids = np.array(tokens.qids)
    starts = np.append(0, np.flatnonzero(qids[1:] != qids[:-1]) + 1)
    features, full = _matrix(tokens, rules, piece)
    return Block(
        features=features,
        grades=tokens.grades,
        query_ids=[tokens.qids[start] for start in starts],
        query_sizes=np.diff(np.append(starts, rows)),
        item_ids=item_ids if len(item_ids) == rows else None,
        full=full,
    )


def _plain(text: bytes) -> tuple[bytes, list[bytes]]:
    """The text with plain spaces and without comments, and the docids found in those."""
    for other in (b"\r", b"\t"):
        text = text.replace(other, b" ")
    if b"#" not in text:
        return text, []
    text = _COMMENT_LINE.sub(b"", text)
    return _COMMENT.sub(b"", text), _DOCID.findall(text)


def _quick(text: bytes, rules: Rules) -> Tokens | None:
    """Parse with polars; None where anything is unusual."""
    grade_words, qids, body = _split(text)
    if not _one_head_a_line(len(qids), text):
        return None
    grades = _whole_grades(grade_words, rules)
    if grades is None:
        return None
    try:
        table = pl.read_csv(
            body, has_header=False, separator=":", quote_char=None, schema={"id": pl.Int32, "value": pl.Float32}
        )
    except pl.exceptions.PolarsError:
        return None
    if table["id"].null_count():  # several spaces between two features make empty lines
        table = table.filter(pl.col("id").is_not_null() | pl.col("value").is_not_null())
    if table["id"].null_count() or table["value"].null_count() or len(table) != body.count(b":"):
        return None
    ids, values = table["id"].to_numpy(), table["value"].to_numpy()
    checked = _finite(values, text, rules)
    if checked is None or not _ids_sound(ids, len(qids), rules):
        return None
    return Tokens(grades, qids, ids, checked)


def _split(text: bytes) -> tuple[list[bytes], list[bytes], bytes]:
    """Grades, qids, and the rest with one `id:value` a line, each row led by START:0."""
    parts = _HEAD.split(text)
    lead = b"\n%d:0" % START
    rows = map(bytes.rstrip, parts[3::3])
    return parts[1::3], parts[2::3], (lead[1:] + lead.join(rows)).replace(b" ", b"\n")


def _one_head_a_line(heads: int, text: bytes) -> bool:
    # `text` begins and ends with a newline: one more than there are lines, unless some are blank.
    lines = text.count(b"\n") - 1
    return heads == lines or heads == _BLANK_LINES.sub(b"\n", text).count(b"\n") - 1


def _whole_grades(words: list[bytes], rules: Rules) -> IntArray | None:
    distinct, which = np.unique(np.array(words), return_inverse=True)
    try:
        grades = np.array([parse_grade(word, rules) for word in distinct.tolist()], dtype=np.int16)
    except GradeError:
        return None
    return grades[which]


def _finite(values: npt.NDArray[np.float32], text: bytes, rules: Rules) -> npt.NDArray[np.float32] | None:
    """The values clipped as the rules say; None if one is infinite, or missing without leave."""
    if np.isfinite(values).all():
        return values if rules.clip is None else np.clip(values, -rules.clip, rules.clip)
    if rules.missing == "refuse" and np.isnan(values).any():
        return None
    if np.isinf(values).any() and (rules.clip is None or INFINITE_WORD.search(text)):
        return None
    return values if rules.clip is None else np.clip(values, -rules.clip, rules.clip)


def _ids_sound(ids: npt.NDArray[np.int32], rows: int, rules: Rules) -> bool:
    starts = ids == START
    if np.count_nonzero(starts) != rows or ids.max() > rules.last_id:
        return False
    if ids[~starts].min(initial=rules.first_id) < rules.first_id:
        return False
    if (starts[1:] | (ids[1:] > ids[:-1])).all():  # rising inside every row, so none is repeated
        return True
    keys = np.sort(np.cumsum(starts) * (rules.last_id + 2) + ids)
    return bool((np.diff(keys) > 0).all())


def _matrix(tokens: Tokens, rules: Rules, piece: Piece) -> tuple[npt.NDArray[np.float32], bool]:
    """(rows, d) features, absent ones 0, and whether none was absent."""
    rows, ids, values = len(tokens.qids), tokens.ids, tokens.values
    width = max(int(ids.max()) - rules.first_id + 1, 0)
    if len(ids) == rows * (width + 1):
        expected = np.append(START, np.arange(width) + rules.first_id)
        if (ids.reshape(rows, width + 1) == expected).all():
            return values.reshape(rows, width + 1)[:, 1:].copy(), True
    check_size(piece.source, rows, width, len(piece.text))
    starts = ids == START
    row = np.cumsum(starts)[~starts] - 1
    features = np.zeros((rows, width), dtype=np.float32)
    features[row, ids[~starts] - rules.first_id] = values[~starts]
    return features, False


def check_size(source: str, rows: int, width: int, text_bytes: int) -> None:
    """Refuse a matrix out of all proportion to its text: the sign of a wrong file."""
    if rows * width * 4 > max(EXPANSION_FLOOR, MAX_EXPANSION * text_bytes):
        raise FeatureError(
            f"{source}: {rows:,} rows × {width:,} features would take {rows * width * 4 / 2**30:,.1f} GB of memory for "
            f"{text_bytes / 2**20:,.1f} MB of text. Is a feature id wrong? Pass n_features to find the line with "
            "ids that are too large, or renumber the features."
        )
