"""Treelite's binary checkpoint, for its compiled predictors and for FIL on a GPU.

How it compares: left iff value <= threshold in the type of the thresholds (float64 here, so that the sum is float64
too); NaN follows default_left; categories are kept. Files are read by the treelite that wrote them or a later one.
"""

from __future__ import annotations

from typing import Any

from unskew.deploy.forest import Forest, forest_of
from unskew.deploy.formats.base import Request, Written, as_zero, finite, refuse_zero_as_missing
from unskew.errors import ExportError, require_extra


def write(request: Request) -> Written:
    if request.model.kind not in ("lightgbm", "xgboost"):
        raise ExportError(f"Treelite holds trees, and this model ({request.model.kind}) has none. Export it to onnx.")
    forest = forest_of(request.model)
    refuse_zero_as_missing(forest, request.engine)
    model = build(as_zero(forest) if request.missing == "zero" else forest)
    return Written(content=bytes(model.serialize_bytes()))


def build(forest: Forest) -> Any:
    """The trees as a treelite model."""
    require_extra("treelite", "treelite", "Exporting to treelite")
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    n_trees = max(1, forest.n_trees)
    builder = ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=Metadata(
            num_feature=len(forest.names),
            task_type="kRegressor",
            average_tree_output=False,
            num_target=1,
            num_class=[1],
            leaf_vector_shape=(1, 1),
        ),
        tree_annotation=TreeAnnotation(num_tree=n_trees, target_id=[0] * n_trees, class_id=[0] * n_trees),
        postprocessor=PostProcessorFunc(name="identity"),
        base_scores=[forest.base],
    )
    for root in forest.root.tolist():
        builder.start_tree()
        _add_nodes(builder, forest, root)
        builder.end_tree()
    if not forest.n_trees:
        builder.start_tree()
        builder.start_node(0)
        builder.leaf(0.0)
        builder.end_node()
        builder.end_tree()
    return builder.commit()


def _add_nodes(builder: Any, forest: Forest, root: int) -> None:
    limit = finite(forest.threshold)
    todo = [root]
    while todo:
        part = todo.pop()
        builder.start_node(part)
        if part >= forest.n_nodes:
            builder.leaf(float(forest.value[part - forest.n_nodes]))
        else:
            left, right = int(forest.left[part]), int(forest.right[part])
            children = {"left_child_key": left, "right_child_key": right}
            if part in forest.categories:
                builder.categorical_test(
                    int(forest.feature[part]),
                    default_left=False,
                    category_list=forest.categories[part].tolist(),
                    category_list_right_child=False,
                    **children,
                )
            else:
                builder.numerical_test(
                    int(forest.feature[part]),
                    float(limit[part]),
                    default_left=bool(forest.missing_left[part]),
                    opname="<=",
                    **children,
                )
            todo += [right, left]
        builder.end_node()
