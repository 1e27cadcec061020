"""Vespa: LightGBM's JSON dump as Vespa imports it (`lightgbm("model.json")` in a rank profile).

How it compares: left iff value < threshold — strictly, unlike LightGBM — and NaN goes left iff `default_left`; Vespa's
compiled forests hold thresholds and leaves in float32 and add in float64. So the threshold is written as the smallest
float32 above the model's. Feature names must be rank features of the schema (`bm25(title)`, `attribute(price)`).
"""

from __future__ import annotations

import json
import re

from unskew.deploy.forest import Forest
from unskew.deploy.formats.base import (
    Request,
    Written,
    above,
    check_depth,
    exact_trees,
    float32_words,
    render,
)
from unskew.errors import ExportError

_RANK_FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_@$]*(\([^()\"]*\))?(\.[A-Za-z0-9_.]+)?")


def write(request: Request) -> Written:
    forest = exact_trees(request)
    check_depth(forest, request.engine)
    used = sorted({forest.names[feature] for feature in forest.feature.tolist()})
    if request.feature_set is not None:
        request.feature_set.check(used, "the rank profile")
    wrong = [name for name in used if not _RANK_FEATURE.fullmatch(name)]
    if wrong:
        raise ExportError(
            f"Vespa needs rank features as names (bm25(title), attribute(price), a function's name), but '{wrong[0]}' "
            "is none. Rename the columns the model is trained on."
        )
    return Written(
        content=dump(forest).encode(),
        notes=(
            "Put the file into the application package under models/ and name it in a rank profile, for example: "
            'second-phase { expression: lightgbm("FILE.json") }',
        ),
    )


def dump(forest: Forest) -> str:
    """The trees as LightGBM's dump_model has them, with what Vespa reads."""
    threshold, value = float32_words(above(forest.threshold)), float32_words(forest.value)
    feature, missing_left = forest.feature.tolist(), forest.missing_left.tolist()

    def split(node: int) -> tuple[str, str, str]:
        default = "true" if missing_left[node] else "false"
        before = (
            f'{{"split_feature":{feature[node]},"threshold":{threshold[node]},"decision_type":"<=",'
            f'"default_left":{default},"left_child":'
        )
        return before, ',"right_child":', "}"

    def end(number: int) -> str:
        return f'{{"leaf_value":{value[number]}}}'

    trees = [render(forest, root, split, end) for root in forest.root.tolist()]
    if forest.base or not trees:
        trees.append(f'{{"leaf_value":{float32_words([forest.base])[0]}}}')
    info = ",".join(f'{{"tree_index":{number},"tree_structure":{tree}}}' for number, tree in enumerate(trees))
    names = json.dumps(list(forest.names), ensure_ascii=False)
    return (
        '{"name":"tree","version":"v4","num_class":1,"num_tree_per_iteration":1,"label_index":0,'
        f'"max_feature_idx":{len(forest.names) - 1},"objective":"lambdarank","average_output":false,'
        f'"feature_names":{names},"feature_infos":{{}},"tree_info":[{info}],"pandas_categorical":[]}}'
    )
