"""Where a model can go: one entry an engine, read by export, verify-export, the command's help and docs/deploy.md.

Only facts live here. How a file is written is in `formats/`, how it is read back in `verify/`; the two share no rule.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote

FormatName = Literal["lightgbm", "elasticsearch", "opensearch", "solr", "ranklib", "vespa", "onnx", "treelite"]
MissingRule = Literal["exact", "zero"]

_NO_SET = "YOUR_FEATURE_SET"
_PLACEHOLDER = re.compile(r"\{@?file\}|\{set\}")


@dataclass(frozen=True)
class Target:
    """An engine and how it compares.

    engine : its name in messages.
    module : the writer in `formats/` and the reader in `verify/`, which are called alike.
    suffix : how its files usually end; the engine insists on it iff `needs_suffix`.
    goes_left, written, missing, total : when a split goes left, how a threshold is written for that, what a missing
        value does, and how leaves are added: the columns of the table in docs/deploy.md.
    load : the command that loads the file. {file} and {@file} stand for its path and {set} for the feature set.
    runtime : the package that runs such files here; it trusts what it reads iff `trusting`.
    surprises : whether notes on an export to it are worth a warning.
    """

    name: FormatName
    engine: str
    module: str
    suffix: str
    goes_left: str
    written: str
    missing: str
    total: str
    load: str
    needs_suffix: bool = False
    runtime: str | None = None
    trusting: bool = False
    surprises: bool = False

    @property
    def compares(self) -> str:
        """How the engine compares, in one line.

        >>> TARGETS["ranklib"].compares
        'left iff x ≤ t, float32; missing values: 0; the sum: float32'
        """
        words = f"left iff {self.goes_left}; missing values: {self.missing}; the sum: {self.total}"
        return words.replace("`", "")

    def load_command(self, path: str | os.PathLike[str], feature_set: str | None = None) -> str:
        """The command to copy, safe to paste into a shell whatever the names in it hold.

        >>> TARGETS["ranklib"].load_command("it's.xml")
        'java -jar RankLib.jar -load \\'it\\'"\\'"\\'s.xml\\' -rank YOUR_DATA.txt -score scores.txt'
        """
        file = shell_path(path)
        (bare,) = shlex.split(file)
        words = {
            "{file}": file,
            "{@file}": shlex.quote(f"@{bare}"),
            "{set}": _NO_SET if feature_set is None else quote(feature_set, safe=""),
        }
        return _PLACEHOLDER.sub(lambda found: words[found[0]], self.load)


def shell_path(path: str | os.PathLike[str]) -> str:
    """A path as one word of a shell command, never taken for an option or for standard input.

    >>> shell_path("-a b")
    "'./-a b'"
    """
    text = os.fspath(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def _learning_to_rank(name: FormatName, engine: str, missing: str) -> Target:
    """The plugins of Elasticsearch and OpenSearch, which read the same files."""
    return Target(
        name=name,
        engine=engine,
        module="elasticsearch",
        suffix=".json",
        goes_left="x < c, float32",
        written="the next float32 above",
        missing=missing,
        total="float32",
        load=(
            "curl -X POST 'http://localhost:9200/_ltr/_featureset/{set}/_createmodel' "
            "-H 'Content-Type: application/json' --data-binary {@file}"
        ),
        surprises=True,
    )


_LISTED: Final = (
    Target(
        name="lightgbm",
        engine="LightGBM",
        module="lightgbm_file",
        suffix=".txt",
        goes_left="x ≤ t, float64",
        written="as trained",
        missing="as trained: none, zero or NaN, by split",
        total="float64",
        load="python -c 'import sys, lightgbm; lightgbm.Booster(model_file=sys.argv[1])' {file}",
        runtime="lightgbm",
    ),
    _learning_to_rank("elasticsearch", "Elasticsearch", "NaN follows `missing`, but what matches nothing arrives as 0"),
    _learning_to_rank("opensearch", "OpenSearch", "by version 0, `no`, or NaN that follows `missing`"),
    Target(
        name="solr",
        engine="Solr",
        module="solr",
        suffix=".json",
        goes_left="x ≤ t + 0.000001, float32",
        written="the number that t + 0.000001 arrives from",
        missing="0; with `isNullSameAsZero: false` (9.2) NaN follows `missing`",
        total="float32",
        load=(
            "curl -X PUT 'http://localhost:8983/solr/YOUR_COLLECTION/schema/model-store' "
            "-H 'Content-type:application/json' --data-binary {@file}"
        ),
        surprises=True,
    ),
    Target(
        name="ranklib",
        engine="RankLib",
        module="ranklib",
        suffix=".xml",
        goes_left="x ≤ t, float32",
        written="rounded down",
        missing="0",
        total="float32",
        load="java -jar RankLib.jar -load {file} -rank YOUR_DATA.txt -score scores.txt",
    ),
    Target(
        name="vespa",
        engine="Vespa",
        module="vespa",
        suffix=".json",
        goes_left="x < t, or `!(x >= t)` where missing goes left, float32",
        written="the next float32 above",
        missing="NaN follows `default_left`",
        total="float64 of float32 leaves",
        load="cp {file} YOUR_APPLICATION/models/ && vespa deploy YOUR_APPLICATION",
        needs_suffix=True,
    ),
    Target(
        name="onnx",
        engine="ONNX",
        module="onnx_file",
        suffix=".onnx",
        goes_left="x ≤ t, float64 inside",
        written="rounded down",
        missing="NaN follows `nodes_missing_value_tracks_true`",
        total="float64, result float32",
        load="python -c 'import sys, onnxruntime; onnxruntime.InferenceSession(sys.argv[1])' {file}",
        runtime="onnxruntime",
        trusting=True,
    ),
    Target(
        name="treelite",
        engine="Treelite",
        module="treelite_file",
        suffix=".tl",
        goes_left="x ≤ t, float64",
        written="rounded down",
        missing="NaN follows `default_left`",
        total="float64",
        load="python -c 'import sys, treelite; treelite.Model.deserialize(sys.argv[1])' {file}",
        runtime="treelite",
        trusting=True,
    ),
)

TARGETS: Final[dict[str, Target]] = {target.name: target for target in _LISTED}
