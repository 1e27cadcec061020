"""The published collections: where each comes from, how its files are laid out, and what is true of its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from unskew._options import ScalingName

SPLITS = ("train", "valid", "test")
_Counts = tuple[int | None, int | None, int | None]


@dataclass(frozen=True)
class Archive:
    """What is downloaded: its name, bytes, and SHA-256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Split:
    """One file (or group of files) of a collection.

    patterns : where it lies in the collection's folder; of several, the first that is there.
    queries, rows : how many it has as published, where that is known.
    own_name : whether no other collection has a file of that name, so that it may lie outside the folder.
    """

    patterns: tuple[str, ...]
    queries: int | None = None
    rows: int | None = None
    own_name: bool = False


@dataclass(frozen=True)
class Dataset:
    """A published collection.

    name : what commands call it; title, publisher, licence, how_to_get : for people.
    layout : "letor" text, or "baidu" tables with one row per query.
    folders : what the unpacked folder may be called, whatever its case.
    parts : folds (or the one part "") → train, valid, test → their files.
    max_grade, n_features : of the collection; n_features is None where features are chosen by name.
    scaling : how its features are best scaled for linear and neural models.
    clip : the bound for its huge sentinel values, if it has such.
    """

    name: str
    title: str
    publisher: str
    licence: str
    how_to_get: str
    folders: tuple[str, ...]
    parts: Mapping[str, Mapping[str, Split]]
    max_grade: int
    n_features: int | None
    layout: Literal["letor", "baidu"] = "letor"
    archive: Archive | None = None
    scaling: ScalingName = "minmax"
    clip: float | None = None


def _folds(*, first: _Counts = (None,) * 3, queries: _Counts = (None,) * 3) -> dict[str, dict[str, Split]]:
    """Five folds of train.txt, vali.txt and test.txt; the rows of the first and the queries of all, if known."""
    return {
        f"fold{i}": {
            split: Split((f"Fold{i}/{file}.txt",), queries[j], first[j] if i == 1 else None)
            for j, (split, file) in enumerate(zip(SPLITS, ("train", "vali", "test"), strict=True))
        }
        for i in range(1, 6)
    }


_LETOR4 = "Download LETOR 4.0 from Microsoft Research (search for 'LETOR 4.0 {name}') and unpack {name}.rar."

DATASETS: Mapping[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            name="mslr-web10k",
            title="MSLR-WEB10K",
            publisher="Microsoft Research, project MSLR",
            licence="Microsoft Research licence: research use",
            how_to_get="Download MSLR-WEB10K.zip from the project page of MSLR at Microsoft Research and unpack it.",
            folders=("MSLR-WEB10K",),
            parts=_folds(first=(723_412, 235_260, 241_521), queries=(6000, 2000, 2000)),
            max_grade=4,
            n_features=136,
            archive=Archive(
                "MSLR-WEB10K.zip",
                1_234_144_912,
                "2902142ea33f18c59414f654212de5063033b707d5c3939556124b1120d3a0ba",
            ),
        ),
        Dataset(
            name="istella-s",
            title="Istella-S LETOR",
            publisher="Istella, library.istella.it",
            licence="Istella licence: non-commercial research",
            how_to_get="Accept the licence at library.istella.it, download istella-s-letor.tar.gz and unpack it.",
            folders=("istella-s-letor", "istella-s"),
            parts={
                "": {
                    "train": Split(("sample/train.txt",), 19_245, 2_043_304),
                    "valid": Split(("sample/vali.txt",), 7211, 684_076),
                    "test": Split(("sample/test.txt",), 6562, 681_250),
                }
            },
            max_grade=4,
            n_features=220,
            archive=Archive(
                "istella-s-letor.tar.gz",
                472_129_615,
                "41b21116a3650cc043dbe16f02ee39f4467f9405b37fdbcc9a6a05e230a38981",
            ),
            scaling="log",
            # Special cases are marked with the largest double, which float32 cannot hold and no linear model survives.
            clip=1e9,
        ),
        Dataset(
            name="yahoo-set1",
            title="Yahoo! Learning to Rank Challenge, set 1 (C14B)",
            publisher="Yahoo Webscope",
            licence="by signed agreement with Yahoo",
            how_to_get="Ask Yahoo Webscope for data set C14B: by signed agreement only, there is no public address.",
            folders=("ltrc_yahoo", "yahoo", "yahoo-set1", "C14B"),
            parts={
                "": {
                    "train": Split(("set1.train.txt",), 19_944, 473_134, own_name=True),
                    "valid": Split(("set1.valid.txt",), 2994, 71_083, own_name=True),
                    "test": Split(("set1.test.txt",), 6983, 165_660, own_name=True),
                }
            },
            max_grade=4,
            n_features=700,
        ),
        Dataset(
            name="baidu-ultr",
            title="Baidu-ULTR, subset of the University of Amsterdam",
            publisher="Hugging Face, philipphager/baidu-ultr_uva-mlm-ctr",
            licence="CC BY-NC 4.0",
            how_to_get="Download baidu-ultr_uva-mlm-ctr of philipphager from Hugging Face: clicks/ and annotations/.",
            folders=("baidu-ultr_uva-mlm-ctr", "baidu-ultr"),
            parts={
                "": {
                    "train": Split(("clicks/train*", "clicks/train/*", "parts/train*"), 1_779_017, 14_526_276),
                    "valid": Split(("annotations/val*", "annotations/val*/*"), 1727, 136_513),
                    "test": Split(("annotations/test*", "annotations/test/*", "annotations/*"), 3455, 261_009),
                }
            },
            max_grade=4,
            n_features=None,
            layout="baidu",
        ),
        Dataset(
            name="mq2007",
            title="LETOR 4.0, MQ2007",
            publisher="Microsoft Research, project LETOR",
            licence="Microsoft Research licence: research use",
            how_to_get=_LETOR4.format(name="MQ2007"),
            folders=("MQ2007",),
            parts={**_folds(), "all": {"all": Split(("mq2007.txt",), 1692, 69_623, own_name=True)}},
            max_grade=2,
            n_features=46,
        ),
        Dataset(
            name="mq2008",
            title="LETOR 4.0, MQ2008",
            publisher="Microsoft Research, project LETOR",
            licence="Microsoft Research licence: research use",
            how_to_get=_LETOR4.format(name="MQ2008"),
            folders=("MQ2008",),
            parts={
                **_folds(first=(9630, 2707, 2874)),
                "all": {"all": Split(("mq2008.txt",), 784, 15_211, own_name=True)},
            },
            max_grade=2,
            n_features=46,
        ),
    )
}
