"""The data of an experiment: where it comes from, and how it is split for training, choosing and testing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unskew._options import Half
from unskew.bench.halves import development_half, untouched_half
from unskew.data.clicks import ClickLog
from unskew.data.fingerprint import fingerprint as log_fingerprint
from unskew.data.published import DATASETS
from unskew.data.ranking import RankingData
from unskew.errors import DataError, SettingError
from unskew.evaluation.folds import Fold, query_folds

Parts = tuple[RankingData | ClickLog, RankingData, RankingData]

# Three parts to train on, one to choose on, one to test on.
PARTS = 5
# A log that the smoke preset of rq3 makes up where nobody has a real one.
STAND_IN = "simulated"
# LETOR 4.0 as one file: the rows of its official parts S1 … S5, by the collection's rows.
_LETOR_PARTS = {15_211: (2933, 3635, 3062, 2707, 2874)}


@dataclass(frozen=True)
class Source:
    """What a person named: judged data, and for a real log the log and the judged queries to choose settings on."""

    data: str
    max_grade: int | None = None
    half: Half | None = None
    log: str | None = None
    valid: str | None = None

    @property
    def label(self) -> str:
        """The name that tables show: a file's without its endings, a registered one as it is.

        >>> Source("data/letor/mq2008.txt.xz").label, Source("synthetic:50", half="untouched").label
        ('mq2008', 'synthetic:50, untouched half')
        """
        name = self.data
        if name.partition(":")[0] != "synthetic" and not _registered(name):
            path = Path(name)
            name = path.name.split(".")[0] or path.name
        return name if self.half is None else f"{name}, {self.half} half"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Collection:
    """Data ready to be split.

    label : as tables show it; dataset : the published collection it is, if any.
    fingerprint : stands for the data's content.
    n_folds : how many splits there are; split(k) gives the k-th: training data (or a log), validation, test.
    how : how it was split, in words.
    """

    label: str
    dataset: str | None
    fingerprint: str
    n_folds: int
    split: Callable[[int], Parts]
    how: str


def read_collection(source: Source, *, real_log: bool = False) -> Collection:
    """Read what the source names; `real_log` for the experiment that trains on a log nobody simulated."""
    if real_log:
        return _with_log(source)
    if source.log is not None or source.valid is not None:
        raise SettingError("--log and --valid belong to rq3; the other experiments make their clicks from --data.")
    dataset = _registered(source.data)
    if dataset is not None and source.half is None and _has_splits(source.data):
        return _published(source, dataset)
    data = _judged(source.data, source)
    if source.half is not None:
        data = (development_half if source.half == "development" else untouched_half)(data)
    official = _official_folds(data)
    folds = official or query_folds(data, PARTS)
    return Collection(
        label=source.label,
        dataset=dataset,
        fingerprint=data_fingerprint(data),
        n_folds=len(folds),
        split=lambda k: folds[k].split(data),
        how="official parts, 3/1/1" if official else "by query, 3/1/1",
    )


def data_fingerprint(data: RankingData) -> str:
    """A digest of everything that matters about judged data.

    >>> data_fingerprint(RankingData.from_arrays(np.eye(2), sizes=[2], grades=[0, 1]))[:8]
    'b8674f44'
    """
    digest = hashlib.blake2b("\n".join(data.feature_names).encode(), digest_size=16)
    digest.update(repr(data.max_grade).encode())
    digest.update("\n".join(map(str, data.query_ids.to_list())).encode())
    for array in (data.offsets, data.grades, data.features):
        if array is not None:
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _judged(name: str, source: Source) -> RankingData:
    from unskew.sources import read_judged

    data = read_judged(name, max_grade=source.max_grade)
    data.require_grades("An experiment")
    return data


def _registered(name: str) -> str | None:
    first = name.strip("/").lower().split("/")[0]
    return first if first in DATASETS and not Path(name).exists() else None


def _has_splits(name: str) -> bool:
    from unskew.data.datasets import parse_name

    return "test" in parse_name(name).dataset.parts[parse_name(name).part]


def _published(source: Source, dataset: str) -> Collection:
    """Official splits: the fold that was named, or all of them."""
    from unskew.data.datasets import parse_name
    from unskew.sources import read_splits

    named = source.data.strip("/").lower()
    folds = [f"{dataset}/{part}" for part in DATASETS[dataset].parts if part.startswith("fold")]
    names = folds if named == dataset and folds else [f"{dataset}/{parse_name(named).part}".rstrip("/")]

    def split(k: int) -> Parts:
        parts = read_splits(names[k])
        return parts.train, parts.valid, parts.test

    first = split(0)[0]
    if isinstance(first, ClickLog):
        raise SettingError(f"{named} is a real log with separate judgments: that is rq3.")
    return Collection(source.label, dataset, data_fingerprint(first), len(names), split, "as published")


def _official_folds(data: RankingData) -> list[Fold] | None:
    """The official folds of a LETOR 4.0 collection that came as one file: part i tests fold i + 1."""
    sizes = _LETOR_PARTS.get(data.n_rows)
    if sizes is None:
        return None
    bounds = np.searchsorted(data.offsets, np.cumsum([0, *sizes]))
    if not np.array_equal(data.offsets[np.minimum(bounds, data.n_queries)], np.cumsum([0, *sizes])):
        return None
    parts = [np.arange(bounds[i], bounds[i + 1]) for i in range(PARTS)]
    return [
        Fold(
            train=np.sort(np.concatenate([parts[(k + i) % PARTS] for i in range(3)])),
            valid=parts[(k + 3) % PARTS],
            test=parts[(k + 4) % PARTS],
        )
        for k in range(PARTS)
    ]


def _with_log(source: Source) -> Collection:
    """A real log, the judged queries that choose settings, and those that test."""
    dataset = _registered(source.data)
    if dataset is not None and source.log is None and DATASETS[dataset].layout == "baidu":
        from unskew.sources import read_splits

        parts = read_splits(dataset)
        triple: Parts = (parts.train, parts.valid, parts.test)
        return _one_split(source, dataset, triple, "as published")
    if source.log is None:
        raise SettingError(
            "rq3 needs a real click log: name it with --log, and judged data over the same features with --data."
        )
    test = _judged(source.data, source)
    if source.log == STAND_IN:
        return _one_split(source, dataset, _stand_in(test), "a simulated log in place of a real one")
    log = ClickLog.read(source.log)
    if log.data.grades is not None:  # a real log has none, and methods must not see them
        log = log.with_data(_ungraded(log.data))
    if source.valid is not None:
        return _one_split(source, dataset, (log, _judged(source.valid, source), test), "as given")
    if test.n_queries < 3:
        raise DataError(f"Choosing and testing need 3 judged queries or more, but {source.data} has {test.n_queries}.")
    order = np.random.default_rng(0).permutation(test.n_queries)
    third = test.n_queries // 3
    parts3 = (log, test.take_queries(np.sort(order[:third])), test.take_queries(np.sort(order[third:])))
    return _one_split(source, dataset, parts3, "a third of the judged queries chooses, the rest tests")


def _one_split(source: Source, dataset: str | None, parts: Parts, how: str) -> Collection:
    log = parts[0]
    content = log_fingerprint(log)["sha256"] if isinstance(log, ClickLog) else data_fingerprint(log)
    digest = hashlib.blake2b("".join([content, *map(data_fingerprint, parts[1:])]).encode(), digest_size=16)
    return Collection(source.label, dataset, digest.hexdigest(), 1, lambda k: parts, how)


def _stand_in(data: RankingData) -> Parts:
    from unskew.simulation.log import simulate

    train, valid, test = query_folds(data, PARTS)[0].split(data)
    log = simulate(train, production=1.0, seed=0)
    return log.with_data(_ungraded(log.data)), valid, test


def _ungraded(data: RankingData) -> RankingData:
    return replace(data, grades=None)
