"""Elasticsearch and OpenSearch Learning to Rank: the `model/xgboost+json` definition and the `_createmodel` body.

How they compare: float32, left iff value < split_condition, the sum in float32, tree after tree; NaN follows `missing`.
So the condition is the smallest float32 above the model's threshold, and a value exactly on it still goes left.
A definition is the array of trees: every version reads it, and unknown fields are refused.
"""

from __future__ import annotations

import json

from unskew.deploy.forest import Forest
from unskew.deploy.formats.base import (
    Request,
    Written,
    above,
    check_depth,
    exact_trees,
    float32_words,
    local_numbers,
    plain_linear,
    render,
    small_first,
    zero_is_special,
)


def write(request: Request) -> Written:
    if request.model.kind == "linear":
        scorer = plain_linear(request)
        if request.feature_set is not None:
            request.feature_set.check(request.model.feature_names, "the feature set")
        weights = dict(zip(request.model.feature_names, scorer.coefficients.tolist()))
        return _wrapped(request, "model/linear", json.dumps(weights, ensure_ascii=False), ())
    forest = exact_trees(request)
    check_depth(forest, request.engine)
    used = sorted({forest.names[feature] for feature in forest.feature.tolist()})
    if request.feature_set is not None:
        request.feature_set.check(used, "the feature set")
    notes = _missing_notes(request.engine, zero_is_special(forest))
    return _wrapped(request, "model/xgboost+json", definition(forest), notes)


def definition(forest: Forest) -> str:
    """The trees as the plugins' JSON."""
    number, depth = local_numbers(forest)
    condition, leaf = float32_words(above(forest.threshold)), float32_words(forest.value)
    names = [json.dumps(name, ensure_ascii=False) for name in forest.names]
    ids, depths = number.tolist(), depth.tolist()
    left, right = forest.left.tolist(), forest.right.tolist()
    feature, missing_left = forest.feature.tolist(), forest.missing_left.tolist()

    def split(node: int) -> tuple[str, str, str]:
        yes, no = ids[left[node]], ids[right[node]]
        before = (
            f'{{"nodeid":{ids[node]},"depth":{depths[node]},"split":{names[feature[node]]},'
            f'"split_condition":{condition[node]},"yes":{yes},"no":{no},'
            f'"missing":{yes if missing_left[node] else no},"children":['
        )
        return before, ",", "]}"

    def end(number: int) -> str:
        return f'{{"nodeid":{ids[forest.n_nodes + number]},"leaf":{leaf[number]}}}'

    trees = [render(forest, root, split, end) for root in small_first(forest).tolist()]
    if forest.base or not trees:
        trees.append(f'{{"nodeid":0,"leaf":{float32_words([forest.base])[0]}}}')
    return f"[{','.join(trees)}]"


def _wrapped(request: Request, kind: str, text: str, notes: tuple[str, ...]) -> Written:
    body = {"model": {"name": request.name, "model": {"type": kind, "definition": text}}}
    return Written(
        content=json.dumps(body, ensure_ascii=False).encode(),
        beside={".definition.json": text.encode()},
        notes=notes,
    )


def _missing_notes(engine: str, learnt: bool) -> tuple[str, ...]:
    """What a feature whose query matches nothing becomes; `learnt` says whether the model parts missing from 0."""
    if engine == "Elasticsearch":
        told = (
            "This model learnt where missing values go. Elasticsearch gives a feature whose query matches nothing the "
            "value 0, not missing: train with 0 in such places, or its scores will differ there."
        )
        return (told,) if learnt else ()
    if learnt:
        return (
            "This model learnt where missing values go. OpenSearch follows that ('missing') only since the release "
            "that honours it per split (its issue 378); from 3.2 until then every missing value went to 'no', and "
            "before 3.2 it counted as 0.",
        )
    return (
        "OpenSearch from 3.2 until the release that honours 'missing' per split (its issue 378) sends a feature whose "
        "query matches nothing to 'no', where this model takes it for 0: there, let such features give 0 themselves.",
    )
