"""LETOR text line by line: what a row may be, and an error that names the line where it is not."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unskew._options import MissingValues
from unskew._segments import IntArray
from unskew.data._pieces import Piece
from unskew.data.ranking import MAX_GRADE_LIMIT
from unskew.errors import FeatureError, FileFormatError, GradeError, UnskewError

# More features than any published collection has; a wrong file must not allocate the machine.
MAX_FEATURE_ID = 100_000
START = -1  # the id that stands at the beginning of every row in `Tokens.ids`
INFINITE_WORD = re.compile(rb"inf", re.IGNORECASE)

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
_SHAPE = "grade qid:Q 1:value 2:value …"


@dataclass(frozen=True)
class Rules:
    """What a file may contain.

    max_grade : the largest grade allowed.
    n_features : the largest feature id allowed (one less when ids start at 0).
    missing : whether NaN is refused or kept.
    first_id : 1, or 0 for files that count features from 0.
    clip : values beyond ±clip become ±clip; None refuses what float32 cannot hold.
    """

    max_grade: int | None = None
    n_features: int | None = None
    missing: MissingValues = "refuse"
    first_id: int = 1
    clip: float | None = None

    @property
    def last_id(self) -> int:
        """The largest feature id allowed."""
        return (MAX_FEATURE_ID if self.n_features is None else self.n_features) + self.first_id - 1


@dataclass(frozen=True)
class Tokens:
    """Rows one after the other: ids and values (t,), each row led by the id START."""

    grades: IntArray
    qids: list[bytes]
    ids: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]


def parse_lines(piece: Piece, rules: Rules) -> Tokens:
    """Parse line by line, with an error that names the line."""
    grades: list[int] = []
    qids: list[bytes] = []
    ids: list[int] = []
    values: list[float] = []
    for number, line in enumerate(piece.text.split(b"\n"), start=piece.first_line):
        words = line.partition(b"#")[0].split()
        if not words:
            continue
        try:
            grade, qid = _parse_head(words, rules)
            row = _parse_features(words[2:], rules)
        except UnskewError as error:
            cut = "\nThe file ends in the middle of this line: it seems to be cut short." if piece.unfinished else ""
            raise type(error)(f"{piece.source}, line {number}: {error}{cut}") from None
        grades.append(grade)
        qids.append(qid)
        ids.extend((START, *row))
        values.extend((0.0, *row.values()))
    return Tokens(
        np.array(grades, np.int16), qids, np.array(ids, np.int32), np.array(values, np.float64).astype(np.float32)
    )


def _parse_head(words: list[bytes], rules: Rules) -> tuple[int, bytes]:
    if len(words) < 2 or not words[1].startswith(b"qid:"):
        found = _show(b" ".join(words[:3]))
        raise FileFormatError(f"there is no qid. Expected '{_SHAPE}', but found '{found}'.")
    qid = words[1][4:]
    if not qid:
        raise FileFormatError(f"the qid is empty. Expected '{_SHAPE}'.")
    return parse_grade(words[0], rules), qid


def parse_grade(word: bytes, rules: Rules) -> int:
    """A whole grade from 0 to the maximum."""
    if not _NUMBER.fullmatch(word):
        raise GradeError(f"the grade must be a whole number, but '{_show(word)}' was found.")
    value = float(word)
    if not value.is_integer():
        raise GradeError(f"the grade must be a whole number, but {_show(word)} was found.")
    limit = MAX_GRADE_LIMIT if rules.max_grade is None else rules.max_grade
    if not 0 <= value <= limit:
        known = "Pass the collection's maximum as max_grade (--max-grade)."
        hint = "Is this column a grade?" if rules.max_grade is None else known
        raise GradeError(f"the grade must lie between 0 and {limit}, but {_show(word)} was found. {hint}")
    return int(value)


def _parse_features(words: list[bytes], rules: Rules) -> dict[int, float]:
    row: dict[int, float] = {}
    for word in words:
        name, colon, text = word.partition(b":")
        if not colon or not name.isdigit() or not text:
            raise FileFormatError(f"expected 'id:value' with a whole number as id, but found '{_show(word)}'.")
        number = int(name[:20])
        _check_id(number, rules)
        if number in row:
            raise FeatureError(f"feature {number} is given twice. Keep one of the two.")
        row[number] = _value(number, text, rules)
    return row


def _check_id(number: int, rules: Rules) -> None:
    if number < rules.first_id:
        raise FeatureError(
            "feature ids must start at 1, but 0 was found. "
            "If the file counts features from 0, add 1 to every id, or read it in Python with zero_based=True."
        )
    if number > rules.last_id:
        limit = "n_features allows" if rules.n_features is not None else "this reader takes"
        raise FeatureError(f"feature id {number} is beyond the {rules.last_id:,} that {limit}. Is this the right file?")


def _value(number: int, text: bytes, rules: Rules) -> float:
    if not _NUMBER.fullmatch(text):
        raise FeatureError(f"feature {number} must be a number, but '{_show(text)}' was found.")
    value = float(text)
    if np.isnan(value):
        if rules.missing == "keep":
            return value
        raise FeatureError(
            f"feature {number} is missing (NaN). Pass missing='keep' (--missing keep) if the ranker can take that."
        )
    if INFINITE_WORD.search(text):
        raise FeatureError(f"feature {number} is infinite. Clip such values, or write them as missing (NaN).")
    if rules.clip is not None:
        return float(np.clip(value, -rules.clip, rules.clip))
    if abs(value) > float(np.finfo(np.float32).max):
        raise FeatureError(
            f"feature {number} is {_show(text)}, beyond what float32 can hold. "
            "If such values only mark a special case, write them smaller, or read the file in Python with clip=1e9."
        )
    return value


def _show(word: bytes) -> str:
    text = word.decode("utf-8", errors="replace")
    return text if len(text) <= 40 else text[:40] + "…"
