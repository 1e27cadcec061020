"""Judged data from whatever a person names: a file, a registered collection, the synthetic one, a frame."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from unskew._options import MissingValues
from unskew.data._pieces import refuse_pipe
from unskew.data.clicks import ClickLog
from unskew.data.datasets import Name, data_folder, find, look_for, parse_name
from unskew.data.published import DATASETS, SPLITS
from unskew.data.ranking import RankingData
from unskew.data.tables import did_you_mean
from unskew.errors import FileFormatError, SettingError, UnskewWarning

SYNTHETIC_QUERIES = 200
LARGEST_SYNTHETIC = 10_000_000  # some 70 GB
_COMPRESSED = {".gz", ".xz", ".zst"}
_COMPRESSED_STARTS = (b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
TABLES = {".parquet", ".pq", ".csv", ".tsv"}


@dataclass(frozen=True, eq=False)
class Splits:
    """A collection as published: its training, validation and test part.

    train : judged data, or the click log where the collection is one (Baidu-ULTR).
    """

    train: RankingData | ClickLog
    valid: RankingData
    test: RankingData


def read_judged(
    source: Any,
    *,
    max_grade: int | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    cache: bool = True,
    missing: MissingValues = "refuse",
    seed: int = 0,
    **columns: Any,
) -> RankingData:
    """Judged data from a file, a frame, or a name.

    source : LETOR text (plain, .gz, .xz, .zst), Parquet or CSV; a frame; a registered name such as
        `mslr-web10k/fold1` (its training part) or `mslr-web10k/fold1/test`; or `synthetic[:queries]`.
    max_grade : the collection's largest grade; registered collections know theirs.
    data_dir : where registered collections are unpacked; else UNSKEW_DATA.
    cache : keep parsed text for the next load.
    missing : "keep" lets missing features (NaN) through.
    seed : of the synthetic collection.
    columns : for tables, the options of `unskew.data.frames.ranking_from_frame` (query=, item=, relevance=, …).

    >>> read_judged("synthetic:20").n_queries
    20
    """
    if isinstance(source, RankingData):
        return source
    if not isinstance(source, (str, os.PathLike)):
        return RankingData.from_frame(source, max_grade=max_grade, missing=missing, **columns)
    path = Path(source).expanduser()
    if path.exists():
        return _read_path(path, max_grade=max_grade, cache=cache, missing=missing, columns=columns)
    text = os.fspath(source)
    _refuse_columns(text, columns)
    if text.partition(":")[0] == "synthetic":
        return _synthetic(text, seed)
    if text.strip("/").lower().split("/")[0] not in DATASETS:
        raise _unknown(text)
    return _read_registered(parse_name(text), data_dir, max_grade=max_grade, cache=cache, missing=missing)


def read_grades(
    source: str | os.PathLike[str],
    *,
    max_grade: int | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    seed: int = 0,
    **columns: Any,
) -> RankingData:
    """As :func:`read_judged`, for whoever looks at grades alone: a table needs no features, and none is read.

    columns : query=, item= and relevance=, where a table calls them otherwise.
    """
    path = Path(source).expanduser()
    if path.exists() and is_table(path):
        from unskew.data.frames import grades_from_frame

        return grades_from_frame(path, max_grade=max_grade, **columns)
    return read_judged(source, max_grade=max_grade, data_dir=data_dir, missing="keep", seed=seed, **columns)


def read_splits(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    cache: bool = True,
    missing: MissingValues = "refuse",
    scale: bool = False,
) -> Splits:
    """The training, validation and test part of a registered collection, such as `mslr-web10k/fold1`.

    scale : scale the features as the registry says, fitted on the training part (judged collections only).
    """
    wanted = parse_name(name)
    if set(wanted.dataset.parts[wanted.part]) != set(SPLITS):
        raise SettingError(f"{wanted} has no training, validation and test part. Split it by query instead.")
    names = [Name(wanted.dataset, wanted.part, split) for split in SPLITS]
    train: RankingData | ClickLog
    if wanted.dataset.layout == "baidu":
        from unskew.data.baidu import read_baidu_clicks

        train = read_baidu_clicks(find(names[0], data_dir), missing=missing)
    else:
        train = _read_registered(names[0], data_dir, cache=cache, missing=missing)
    valid, test = (_read_registered(part, data_dir, cache=cache, missing=missing) for part in names[1:])
    if scale and isinstance(train, RankingData):
        train, valid, test = _scaled(wanted, train, valid, test)
    return Splits(train, valid, test)


def _scaled(name: Name, *parts: RankingData) -> list[RankingData]:
    from unskew.data.scaling import feature_statistics, fit_scaling

    statistics = feature_statistics(parts[0].features, sentinel=name.dataset.clip)
    scaling = fit_scaling(statistics, name.dataset.scaling)
    return [scaling.apply_to(part) for part in parts]


def _read_path(
    path: Path, *, max_grade: int | None, cache: bool, missing: MissingValues, columns: dict[str, Any]
) -> RankingData:
    if is_table(path):
        from unskew.data.frames import read_judged_table

        return read_judged_table(path, max_grade=max_grade, missing=missing, **columns)
    from unskew.data.letor import read_letor

    _refuse_columns(str(path), columns)
    return read_letor(path, max_grade=max_grade, missing=missing, cache=cache)


def is_table(path: Path) -> bool:
    """Whether a path holds a table: by its name, else by its first bytes."""
    if path.is_dir():
        return True
    refuse_pipe(path)
    suffixes = [suffix for suffix in path.suffixes if suffix not in _COMPRESSED]
    if suffixes and suffixes[-1].lower() in TABLES:
        return True
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror or error}.") from error
    if start.startswith((b"PAR1", b"ARROW1")):
        return True
    if b"\0" in start or start.startswith(_COMPRESSED_STARTS):  # a comma among such bytes means nothing
        return False
    first_line = start.partition(b"\n")[0]
    return b"," in first_line and b"qid:" not in start


def _read_registered(
    name: Name,
    data_dir: str | os.PathLike[str] | None,
    *,
    max_grade: int | None = None,
    cache: bool = True,
    missing: MissingValues = "refuse",
) -> RankingData:
    dataset = name.dataset
    if dataset.layout == "baidu":
        return _read_baidu(name, data_dir, missing)
    from unskew.data.letor import read_letor

    (path,) = find(name, data_dir)
    data = read_letor(
        path,
        max_grade=dataset.max_grade if max_grade is None else max_grade,
        n_features=dataset.n_features,
        missing=missing,
        clip=dataset.clip,
        cache=cache,
    )
    expected = name.files.rows
    if expected is not None and data.n_rows != expected:
        warnings.warn(
            f"{path} has {data.n_rows:,} rows, but {name} as published has {expected:,}. Is it cut short or a sample?",
            UnskewWarning,
            stacklevel=3,
        )
    return data


def _read_baidu(name: Name, data_dir: str | os.PathLike[str] | None, missing: MissingValues) -> RankingData:
    """The annotations. They are published in one piece: a third of the queries is the validation part."""
    from unskew.data.baidu import read_baidu_annotations

    if name.split == "train":
        raise SettingError(
            f"{name} is a click log, not judged data. Read it with unskew.data.baidu.read_baidu_clicks, or name "
            f"{name.dataset.name}/valid or {name.dataset.name}/test for the judged parts."
        )
    folder = data_folder(data_dir)
    if folder is not None and look_for(Name(name.dataset, name.part, "valid"), folder):
        return read_baidu_annotations(find(name, data_dir), missing=missing)
    data = read_baidu_annotations(find(Name(name.dataset, name.part, "test"), data_dir), missing=missing)
    order = np.random.default_rng(0).permutation(data.n_queries)
    third = data.n_queries // 3
    return data.take_queries(np.sort(order[:third] if name.split == "valid" else order[third:]))


def _synthetic(text: str, seed: int) -> RankingData:
    from unskew.simulation.synthetic import synthetic_collection

    _, colon, number = text.partition(":")
    if colon and not number.isdigit():
        raise SettingError(f"'{text}' must name a number of queries, as in synthetic:500.")
    queries = int(number) if colon else SYNTHETIC_QUERIES
    if queries > LARGEST_SYNTHETIC:
        raise SettingError(f"'{text}' would not fit into memory. Name at most {LARGEST_SYNTHETIC:,} queries.")
    return synthetic_collection(queries=queries, seed=seed)


def _refuse_columns(source: str, columns: dict[str, Any]) -> None:
    given = [name for name, value in columns.items() if value is not None]
    if given:
        raise SettingError(
            f"{given[0]}= names a column of a table, but {source} is not a table. "
            f"Leave it out (--{given[0]} on the command line)."
        )


def _unknown(text: str) -> FileFormatError:
    close = get_close_matches(text.lower().split("/")[0], [*DATASETS, "synthetic"], n=1)
    hint = did_you_mean(Path(text)) or (f" Did you mean '{close[0]}'?" if close else "")
    return FileFormatError(
        f"There is no file '{text}', and no data set is called so.{hint}\n"
        f"Name a file (LETOR text, Parquet, CSV), synthetic[:queries], or one of: {', '.join(DATASETS)}."
    )
