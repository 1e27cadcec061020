"""What the formats share: the request, what they hand back, and the refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from unskew._segments import IntArray
from unskew.deploy.feature_set import FeatureSet
from unskew.deploy.forest import Forest, forest_of
from unskew.deploy.linear import LinearScorer, read_linear
from unskew.deploy.model import Model
from unskew.deploy.targets import MissingRule, Target
from unskew.errors import ExportError

LARGEST = np.finfo(np.float32).max
# Engines written in Java read JSON nested up to a thousand deep; a split takes two levels.
MAX_DEPTH = 450


@dataclass(frozen=True)
class Request:
    """What is to be written: a model under a name, for the features of an engine."""

    target: Target
    model: Model
    name: str
    feature_set: FeatureSet | None = None
    missing: MissingRule = "exact"

    @property
    def engine(self) -> str:
        return self.target.engine


@dataclass(frozen=True)
class Written:
    """An exported model.

    content : the file itself.
    beside : further files, by the suffix that takes the place of the file's own.
    notes : what a user should know about this engine and this model.
    reached : (nodes,) the thresholds the engine really compares with, where they are not the model's (Solr).
    """

    content: bytes
    beside: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reached: npt.NDArray[np.float32] | None = None


def exact_trees(request: Request, *, nan: bool = True) -> Forest:
    """The model's trees if the engine can follow them exactly, else an ExportError with the reason and a way out.

    nan : whether the engine has missing values at all; one without takes them for 0.
    """
    engine = request.engine
    if request.model.kind not in ("lightgbm", "xgboost"):
        reason = "has no layers of ELU and layer norms" if request.model.kind == "net" else "has no such linear model"
        raise ExportError(
            f"{engine} {reason}, so it cannot run this model ({request.model.kind}) exactly. Export it to onnx, "
            "or train with the ranker 'lambdamart'."
        )
    forest = forest_of(request.model)
    if forest.categories:
        names = sorted({forest.names[forest.feature[node]] for node in forest.categories})
        raise ExportError(
            f"{engine} has no categorical splits, but this model splits on the categories of "
            f"{_listed(names)}. Export to lightgbm or treelite, or encode these features as numbers before training."
        )
    refuse_zero_as_missing(forest, engine)
    _refuse_large(forest, engine)
    if request.missing == "zero":
        return as_zero(forest)
    differs = forest.missing_left != (forest.threshold >= 0)
    if not nan and differs.any():
        names = sorted({forest.names[feature] for feature in forest.feature[differs]})
        raise ExportError(
            f"{engine} takes a missing value for 0, but this model learnt other ways for missing values of "
            f"{_listed(names)}. Fill missing values with 0 before training, export to a format that knows them "
            "(elasticsearch, opensearch, solr, vespa, onnx), or pass missing='zero' if none will ever be missing."
        )
    return forest


def refuse_zero_as_missing(forest: Forest, engine: str) -> None:
    """Only LightGBM itself sends zeros where they do not belong by value."""
    if (forest.zero_left >= 0).any():
        raise ExportError(
            f"{engine} cannot treat zeros as missing, but this model was trained with zero_as_missing. "
            "Export to lightgbm, or train with zero_as_missing=False."
        )


def _refuse_large(forest: Forest, engine: str) -> None:
    """Leaves that float32 cannot hold or add up: a file would say infinity, which no engine reads."""
    if abs(forest.base) + np.abs(forest.value).sum() > LARGEST:
        raise ExportError(
            f"{engine} computes in float32, which cannot hold the leaves of this model (the largest is "
            f"{np.abs(forest.value).max(initial=abs(forest.base)):.3g}). Export to lightgbm, or train on labels of an "
            "ordinary size."
        )


def as_zero(forest: Forest) -> Forest:
    """The same trees with missing values sent where 0 goes."""
    return replace(forest, missing_left=forest.threshold >= 0)


def zero_is_special(forest: Forest) -> bool:
    """Whether a missing value goes another way than 0 somewhere."""
    return bool((forest.missing_left != (forest.threshold >= 0)).any())


def plain_linear(request: Request) -> LinearScorer:
    """The coefficients of a linear model, if the engine can hold them: engines know no intercept."""
    scorer = read_linear(next(iter(request.model.files.values())))
    if scorer.intercept:
        raise ExportError(
            f"{request.engine}'s linear models have no intercept, but this one has {scorer.intercept:g}. "
            "Export it to onnx."
        )
    return scorer


def check_depth(forest: Forest, engine: str) -> None:
    if forest.depth > MAX_DEPTH:
        raise ExportError(
            f"A tree of this model is {forest.depth} splits deep, and {engine} reads at most {MAX_DEPTH}. "
            "Train with max_depth, or export to onnx."
        )


def render(forest: Forest, root: int, split: Callable[[int], tuple[str, str, str]], leaf: Callable[[int], str]) -> str:
    """A tree as text: split(node) gives what stands before the left child, between the two, and after the right."""
    pieces: list[str] = []
    todo: list[int | str] = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            pieces.append(item)
        elif item >= forest.n_nodes:
            pieces.append(leaf(item - forest.n_nodes))
        else:
            before, between, after = split(item)
            pieces.append(before)
            todo += [after, int(forest.right[item]), between, int(forest.left[item])]
    return "".join(pieces)


def local_numbers(forest: Forest) -> tuple[IntArray, IntArray]:
    """(parts,) the number of every part inside its tree, the root's being 0; and (nodes,) every node's depth."""
    n_parts = forest.n_nodes + len(forest.value)
    number, depth = np.zeros(n_parts, dtype=np.int64), np.zeros(n_parts, dtype=np.int64)
    level, tree = forest.root, np.arange(forest.n_trees)
    count = np.ones(forest.n_trees, dtype=np.int64)
    while level.size:
        inner = level < forest.n_nodes
        level, tree = level[inner], tree[inner]
        child = np.stack([forest.left[level], forest.right[level]], axis=1).ravel()
        owner = np.repeat(tree, 2)
        order = np.argsort(owner, kind="stable")
        child, owner = child[order], owner[order]
        added = np.bincount(owner, minlength=forest.n_trees)
        first = np.cumsum(added) - added
        number[child] = count[owner] + np.arange(len(child)) - first[owner]
        depth[forest.left[level]] = depth[forest.right[level]] = depth[level] + 1
        count += added
        level, tree = child, owner
    return number, depth[: forest.n_nodes]


def above(threshold: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The smallest float32 above: x < above(t) is x <= t. At the end of the range it stays finite."""
    return np.minimum(np.nextafter(threshold, np.float32(np.inf)), LARGEST)


def finite(threshold: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Thresholds of infinity (missing against all others) as the largest number a file can hold."""
    return np.clip(threshold, -LARGEST, LARGEST)


def float32_words(values: npt.ArrayLike) -> list[str]:
    """Each value as float32 in nine digits: read as float or as double first, it comes back as the same float32."""
    return [f"{value:.9g}" for value in np.asarray(values, dtype=np.float32).tolist()]


def small_first(forest: Forest) -> IntArray:
    """The trees in the order in which an engine should add them in float32: the last, smallest ones first.

    Boosting grows its largest trees first; added in that order every later sum is rounded at the score's full size.
    """
    return forest.root[::-1]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
