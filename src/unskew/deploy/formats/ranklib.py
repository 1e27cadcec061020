"""RankLib's XML, also read by the Elasticsearch and OpenSearch plugins as `model/ranklib`.

How it compares: float32, left iff value <= threshold; a missing value is 0; the sum is kept in float32. Features are
numbers from 1, in the order of the engine's feature set (without one, in the order of the model's features).
"""

from __future__ import annotations

from unskew.deploy.forest import Forest
from unskew.deploy.formats.base import Request, Written, exact_trees, finite, float32_words, render, small_first


def write(request: Request) -> Written:
    forest = exact_trees(request, nan=False)
    order = {name: number for number, name in enumerate(request.model.feature_names, start=1)}
    note = (
        "Features are numbered from 1 in the order of the model's features; give a feature set for the engine's order."
    )
    if request.feature_set is not None:
        request.feature_set.check(request.model.feature_names, "the feature set")
        order = {name: number for number, name in enumerate(request.feature_set.features, start=1)}
        note = "Features are numbered from 1 in the order of the feature set."
    return Written(
        content=ensemble(forest, [order[name] for name in forest.names]).encode(),
        notes=(note,),
    )


def ensemble(forest: Forest, numbers: list[int]) -> str:
    """The trees as RankLib writes a LambdaMART model: comment lines, an empty line, the ensemble."""
    threshold, value = float32_words(finite(forest.threshold)), float32_words(forest.value)
    feature = [numbers[feature] for feature in forest.feature.tolist()]

    def split(node: int) -> tuple[str, str, str]:
        before = (
            f'<feature> {feature[node]} </feature>\n<threshold> {threshold[node]} </threshold>\n<split pos="left">\n'
        )
        return before, '</split>\n<split pos="right">\n', "</split>\n"

    def end(number: int) -> str:
        return f"<output> {value[number]} </output>\n"

    trees = [render(forest, root, split, end) for root in small_first(forest).tolist()]
    if forest.base or not trees:
        trees.append(f"<output> {float32_words([forest.base])[0]} </output>\n")
    written = [
        f'<tree id="{number}" weight="1.0">\n<split>\n{tree}</split>\n</tree>\n'
        for number, tree in enumerate(trees, start=1)
    ]
    head = f"## LambdaMART\n## No. of trees = {len(trees)}\n## Learning rate = 1.0\n\n"
    return head + "<ensemble>\n" + "".join(written) + "</ensemble>\n"
