"""LETOR text (`grade qid:Q 1:value 2:value … # comment`), read and written."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import get_args

import numpy as np

from unskew._files import atomic_path
from unskew._options import MissingValues
from unskew.data._letor_file import parse_file
from unskew.data._letor_lines import Rules
from unskew.data.cache import cached
from unskew.data.ranking import RankingData, check_max_grade
from unskew.errors import DataError, SettingError, UnskewWarning, check_choice

# Counted up whenever the same text would give other arrays: what older versions cached is then parsed again.
PARSER_VERSION = 1


def read_letor(
    path: str | os.PathLike[str],
    *,
    max_grade: int | None = None,
    n_features: int | None = None,
    missing: MissingValues = "refuse",
    zero_based: bool = False,
    clip: float | None = None,
    cache: bool = True,
) -> RankingData:
    """Read LETOR / SVMlight ranking text: plain, gzip, xz or zstd (told apart by content).

    Absent features are 0, ids may come in any order, and comments of the form `# docid = …` become item ids. Features
    are named f1, f2, … after their ids. Rows of a query that do not follow each other are regrouped, with a warning.

    max_grade : the collection's largest grade; without it the largest one found.
    n_features : the number of features, where the file may not show the last ones; larger ids are refused.
    missing : "keep" lets NaN through as missing.
    zero_based : whether ids count from 0 (features are named f0, f1, … then).
    clip : values beyond ±clip become ±clip; for collections that mark special cases with huge values.
    cache : keep what was parsed (of files of 1 MB or more) and map it on the next load; see `unskew.data.cache`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("2 qid:7 1:0.5 3:1\\n0 qid:7 2:4\\n1 qid:9 1:0.1\\n")
    >>> read_letor(path, max_grade=4)
    RankingData(2 queries, 3 items, 3 features, grades 0–4)
    """
    path = Path(path)
    check_choice("missing", missing, get_args(MissingValues))
    check_max_grade(max_grade)
    if clip is not None and not 0 < clip <= float(np.finfo(np.float32).max):
        raise SettingError(f"clip must be a positive bound that float32 can hold, but {clip!r} was given.")
    if n_features is not None and n_features < 1:
        raise SettingError(f"n_features must be 1 or more, but {n_features!r} was given.")
    rules = Rules(max_grade, n_features, missing, 0 if zero_based else 1, clip)
    if cache:
        # max_grade is no part of the key: it does not change the arrays, and a second copy of them helps nobody.
        settings = {"n_features": n_features, "missing": missing, "first_id": rules.first_id, "clip": clip}
        key = {"reader": "letor", "version": PARSER_VERSION, **settings}
        data = cached(path, key, lambda: parse_file(path, rules))
    else:
        data = parse_file(path, rules)
    if max_grade is not None and data.require_grades("LETOR text").max() > max_grade:
        parse_file(path, rules)  # names the line with the grade beyond the maximum
    for note in data.notes:
        warnings.warn(note, UnskewWarning, stacklevel=2)
    return RankingData._trusted(**{**vars(data), "max_grade": data.max_grade if max_grade is None else max_grade})


def write_letor(data: RankingData, path: str | os.PathLike[str]) -> None:
    """Write judged data as plain LETOR text, features numbered from 1; every float32 reads back the same.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.txt"
    >>> write_letor(RankingData.from_arrays([[0.5, 0], [1, 2]], sizes=[2], grades=[1, 0], query_ids=[7]), path)
    >>> print(path.read_text(), end="")
    1 qid:7 1:0.5 2:0.0
    0 qid:7 1:1.0 2:2.0
    """
    grades = data.require_grades("Writing LETOR text")
    queries = _words("query id", data.query_ids.cast(str).to_list())
    items = None if data.item_ids is None else _words("item id", data.item_ids.cast(str).to_list())
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for row, query in enumerate(data.query_of_row.tolist()):
            values = " ".join(f"{i}:{value}" for i, value in enumerate(data.features[row].astype(str), start=1))
            comment = "" if items is None else f" #docid = {items[row]}"
            file.write(f"{grades[row]} qid:{queries[query]} {values}{comment}\n")


def _words(what: str, ids: list[str]) -> list[str]:
    bad = next((name for name in ids if not name or "#" in name or len(name.split()) != 1), None)
    if bad is not None:
        raise DataError(f"LETOR text cannot hold the {what} {bad!r}: it must be one word without '#'.")
    return ids
