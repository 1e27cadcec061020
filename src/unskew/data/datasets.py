"""Registered collections by name: which files they are, what of them is there, and how to get the rest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from unskew.data.cache import sha256_of
from unskew.data.published import DATASETS, Archive, Dataset, Split
from unskew.errors import DataError, SettingError

ArchiveState = Literal["absent", "good", "wrong size", "wrong checksum"]

_SPLIT_ALIASES = {"vali": "valid", "val": "valid", "validation": "valid", "dev": "valid"}
_TEXT_SUFFIXES = ("", ".gz", ".xz", ".zst")
_TABLE_SUFFIXES = (".parquet", ".feather", ".arrow", ".ipc")


@dataclass(frozen=True)
class Name:
    """A registered name taken apart, such as mslr-web10k/fold1/test."""

    dataset: Dataset
    part: str
    split: str

    @property
    def files(self) -> Split:
        return self.dataset.parts[self.part][self.split]

    def __str__(self) -> str:
        words = (self.dataset.name, self.part, "" if self.split == self.part else self.split)
        return "/".join(word for word in words if word)


@dataclass(frozen=True)
class Status:
    """What is there of a collection: the files found, the names of those missing, and the archive's state."""

    dataset: Dataset
    found: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    archive: Path | None = None
    archive_state: ArchiveState = "absent"

    @property
    def state(self) -> Literal["found", "partly", "missing"]:
        """Whether the collection is there: all its folds, or the file that holds it whole."""
        lacking = {parse_name(name).part for name in self.missing}
        parts = set(self.dataset.parts)
        if parts - {"all"} <= parts - lacking or "all" in parts - lacking:
            return "found"
        return "partly" if self.found else "missing"


def parse_name(name: str) -> Name:
    """Take a registered name apart: DATASET[/PART][/SPLIT]; the first part and the training split by default.

    >>> str(parse_name("mslr-web10k")), str(parse_name("mslr-web10k/fold2/vali")), str(parse_name("istella-s/test"))
    ('mslr-web10k/fold1/train', 'mslr-web10k/fold2/valid', 'istella-s/test')
    """
    first, *rest = name.strip("/").lower().split("/")
    dataset = DATASETS.get(first)
    if dataset is None:
        close = get_close_matches(first, DATASETS, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise SettingError(f"No data set is called '{first}'.{hint} Known: {', '.join(DATASETS)}.")
    part = rest.pop(0) if rest and rest[0] in dataset.parts else next(iter(dataset.parts))
    splits = dataset.parts[part]
    split = _SPLIT_ALIASES.get(rest[0], rest[0]) if rest else next(iter(splits))
    if len(rest) > 1 or split not in splits:
        allowed = [known for known in dataset.parts if known] + list(next(iter(dataset.parts.values())))
        raise SettingError(f"'{name}' names no part of {dataset.name}. Use {dataset.name}/… with {', '.join(allowed)}.")
    return Name(dataset, part, split)


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder with the collections: the one given, else UNSKEW_DATA, else none."""
    chosen = data_dir if data_dir is not None else os.environ.get("UNSKEW_DATA")
    if not chosen:
        return None
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise DataError(f"There is no data folder {folder}. Name one with --data-dir (data_dir=) or in UNSKEW_DATA.")
    return folder


def find(name: str | Name, data_dir: str | os.PathLike[str] | None = None) -> tuple[Path, ...]:
    """The files of a registered name, such as mslr-web10k/fold1/test, or an error that says how to get them."""
    wanted = parse_name(name) if isinstance(name, str) else name
    folder = data_folder(data_dir)
    if folder is None:
        raise DataError(
            f"Where is {wanted.dataset.title}? Name its folder with --data-dir (data_dir=) or in UNSKEW_DATA.\n"
            f"{wanted.dataset.how_to_get}"
        )
    files = look_for(wanted, folder)
    if not files:
        expected = " or ".join(f"{wanted.dataset.folders[0]}/{pattern}" for pattern in wanted.files.patterns)
        raise DataError(f"{wanted} was not found in {folder}: expected {expected}.\n{wanted.dataset.how_to_get}")
    return files


def status(data_dir: str | os.PathLike[str] | None = None, *, verify: bool = True) -> list[Status]:
    """For every registered collection what is found, what is missing, and whether a downloaded archive is whole.

    verify : compute the SHA-256 of archives that are there, not only their size.
    """
    folder = data_folder(data_dir)
    return [_status(dataset, folder, verify) for dataset in DATASETS.values()]


def _status(dataset: Dataset, folder: Path | None, verify: bool) -> Status:
    names = [Name(dataset, part, split) for part, splits in dataset.parts.items() for split in splits]
    found = {} if folder is None else {str(name): files for name in names if (files := look_for(name, folder))}
    missing = tuple(str(name) for name in names if str(name) not in found)
    if folder is None or dataset.archive is None:
        return Status(dataset, found, missing)
    places = [place / dataset.archive.name for place in (folder, *_places(dataset, folder))]
    archive = next((place for place in places if place.is_file()), None)
    if archive is None:
        return Status(dataset, found, missing)
    return Status(dataset, found, missing, archive, archive_state(archive, dataset.archive, verify=verify))


def archive_state(path: Path, expected: Archive, *, verify: bool = True) -> ArchiveState:
    """Whether a downloaded archive is the published one."""
    if path.stat().st_size != expected.size:
        return "wrong size"
    return "wrong checksum" if verify and sha256_of(path) != expected.sha256 else "good"


def look_for(name: Name, folder: Path) -> tuple[Path, ...]:
    """The files of a name under a data folder; none if they are not there."""
    places = _places(name.dataset, folder) + ([folder] if name.files.own_name else [])
    for place in places:
        for pattern in name.files.patterns:
            files = _text_file(place / pattern) if name.dataset.layout == "letor" else _tables(place, pattern)
            if files:
                return files
    return ()


def _places(dataset: Dataset, folder: Path) -> list[Path]:
    """The folders that bear one of the collection's names: inside the data folder, or itself."""
    wanted = {name.lower() for name in dataset.folders}
    inside = sorted(place for place in folder.iterdir() if place.is_dir() and place.name.lower() in wanted)
    return inside + ([folder] if folder.resolve().name.lower() in wanted else [])


def _text_file(path: Path) -> tuple[Path, ...]:
    return tuple(file for suffix in _TEXT_SUFFIXES if (file := path.with_name(path.name + suffix)).is_file())[:1]


def _tables(place: Path, pattern: str) -> tuple[Path, ...]:
    return tuple(sorted(path for path in place.glob(pattern) if path.is_file() and path.suffix in _TABLE_SUFFIXES))
