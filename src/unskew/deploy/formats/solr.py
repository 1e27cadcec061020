"""Solr Learning to Rank: MultipleAdditiveTreesModel, and LinearModel for a linear score.

How it compares: float32, left iff value <= threshold + 0.000001, where Solr adds that slack to every threshold it
reads; the sum in float32. So each threshold is written as the number to which the slack must be added to arrive at the
model's threshold. Missing values count as 0, unless isNullSameAsZero is false (Solr 9.2): then NaN follows `missing`.
"""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt

from unskew.deploy.forest import Forest
from unskew.deploy.formats.base import (
    LARGEST,
    Request,
    Written,
    check_depth,
    exact_trees,
    finite,
    float32_words,
    plain_linear,
    render,
    small_first,
    zero_is_special,
)

SLACK = np.float32(1e-6)
_NEIGHBOURS = 4
# No feature has values this close to a threshold and yet on its other side.
_NO_VALUE = 1e-30


def write(request: Request) -> Written:
    if request.feature_set is not None:
        request.feature_set.check(request.model.feature_names, "the feature store")
    if request.model.kind == "linear":
        scorer = plain_linear(request)
        weights = dict(zip(request.model.feature_names, scorer.coefficients.tolist()))
        return _wrapped(request, "LinearModel", f'{{"weights":{json.dumps(weights, ensure_ascii=False)}}}')
    forest = exact_trees(request)
    check_depth(forest, request.engine)
    written, reached = without_slack(finite(forest.threshold))
    with_missing = zero_is_special(forest)
    notes = []
    if with_missing:
        notes.append("This model learnt where missing values go: it needs Solr 9.2 or later (isNullSameAsZero).")
    off = np.abs(reached.astype(np.float64) - finite(forest.threshold))
    count = int((off > _NO_VALUE).sum())
    if count:
        notes.append(
            f"Solr adds 0.000001 to every threshold in float32; {count} of {forest.n_nodes} thresholds "
            f"can then be met only to within {off.max():.1g}. Feature values that close to a threshold would tell."
        )
    params = f'{{{_missing_setting(with_missing)}"trees":[{trees_of(forest, written, with_missing)}]}}'
    return _wrapped(request, "MultipleAdditiveTreesModel", params, tuple(notes), reached)


def without_slack(threshold: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """What to write for each threshold, and what Solr then compares with: the model's threshold or the nearest to it.

    >>> written, reached = without_slack(np.float32([0.5, 1000.25]))
    >>> (reached == np.float32([0.5, 1000.25])).all()
    np.True_
    """
    tries = [threshold - SLACK]
    for direction in (np.float32(-np.inf), np.float32(np.inf)):
        step = tries[0]
        for _ in range(_NEIGHBOURS):
            with np.errstate(over="ignore"):
                step = np.clip(np.nextafter(step, direction), -LARGEST, LARGEST)
            tries.append(step)
    candidates = np.stack(tries, axis=1)
    with np.errstate(over="ignore"):
        arrives = candidates + SLACK
    off = np.abs(arrives.astype(np.float64) - threshold[:, None])
    # Zero is the commonest value of a feature: it must keep its side whatever else cannot be met.
    off[(arrives >= 0) != (threshold >= 0)[:, None]] = np.inf
    best = np.argmin(np.where(np.isfinite(off), off, np.inf), axis=1)[:, None]
    return np.take_along_axis(candidates, best, axis=1)[:, 0], np.take_along_axis(arrives, best, axis=1)[:, 0]


def trees_of(forest: Forest, written: npt.NDArray[np.float32], with_missing: bool) -> str:
    threshold, value = float32_words(written), float32_words(forest.value)
    names = [json.dumps(name, ensure_ascii=False) for name in forest.names]
    feature, missing_left = forest.feature.tolist(), forest.missing_left.tolist()

    def split(node: int) -> tuple[str, str, str]:
        way = f'"missing":"{"left" if missing_left[node] else "right"}",' if with_missing else ""
        before = f'{{"feature":{names[feature[node]]},"threshold":"{threshold[node]}",{way}"left":'
        return before, ',"right":', "}"

    def end(number: int) -> str:
        return f'{{"value":"{value[number]}"}}'

    roots = [render(forest, root, split, end) for root in small_first(forest).tolist()]
    if forest.base or not roots:
        roots.append(f'{{"value":"{float32_words([forest.base])[0]}"}}')
    return ",".join(f'{{"weight":"1","root":{root}}}' for root in roots)


def _missing_setting(with_missing: bool) -> str:
    return '"isNullSameAsZero":false,' if with_missing else ""


def _wrapped(
    request: Request,
    kind: str,
    params: str,
    notes: tuple[str, ...] = (),
    reached: npt.NDArray[np.float32] | None = None,
) -> Written:
    features = json.dumps([{"name": name} for name in request.model.feature_names], ensure_ascii=False)
    name = json.dumps(request.name, ensure_ascii=False)
    content = f'{{"class":"org.apache.solr.ltr.model.{kind}","name":{name},"features":{features},"params":{params}}}'
    return Written(content=content.encode(), notes=notes, reached=reached)
