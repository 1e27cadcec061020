"""Every method by name: what it is, which rankers it works with, where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from unskew._options import Preset
from unskew.errors import SettingError, check_choice
from unskew.method import Method

Family = Literal["reference", "control function", "selection", "pairwise", "examination", "ready-made"]

# What `unskew fit` uses when nobody chooses.
DEFAULT = "default"

_ANY = ("lambdamart", "dnn", "xgboost")


@dataclass(frozen=True)
class MethodInfo:
    """A line of the registry.

    rankers : names of the rankers it can train, the usual one first.
    factory : "module:Class", imported when the method is made.
    settings : what the name fixes (cfc-s is cfc with form="residual").
    """

    name: str
    family: Family
    rankers: tuple[str, ...]
    citation: str
    summary: str
    factory: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_default(self) -> bool:
        return self.name == DEFAULT


_CFC = (
    "Islam, Vasilaky, Zheleva: A control function framework for mitigating position bias in learning to rank systems, "
    "RecSys 2026"
)

_METHODS = (
    MethodInfo(
        DEFAULT,
        "control function",
        ("lambdamart", "dnn"),
        "no paper: full-cfc or naive, by the log's own clicks",
        "what the referee recommends on this log",
        "unskew.recommended:Recommended",
    ),
    MethodInfo(
        "naive",
        "reference",
        _ANY,
        "no paper: a reference point",
        "clicks taken as grades",
        "unskew.baselines.naive:Naive",
    ),
    MethodInfo(
        "oracle",
        "reference",
        _ANY,
        "no paper: a reference point",
        "human grades instead of clicks: what others are measured by",
        "unskew.baselines.oracle:Oracle",
    ),
    MethodInfo(
        "cfc",
        "control function",
        _ANY,
        _CFC,
        "residual-by-feature control terms beside the features, zero at inference",
        "unskew.control.estimator:ControlFunctionRanker",
        {"form": "interaction"},
    ),
    MethodInfo(
        "cfc-s",
        "control function",
        _ANY,
        _CFC,
        "the transformed residual alone as control term",
        "unskew.control.estimator:ControlFunctionRanker",
        {"form": "residual"},
    ),
    MethodInfo(
        "cfc-bc",
        "control function",
        _ANY,
        _CFC,
        "cfc tuned on clicks that are not debiased",
        "unskew.control.estimator:ControlFunctionRanker",
        {"form": "interaction", "tune_on": "clicks"},
    ),
    MethodInfo(
        "full-cfc",
        "control function",
        ("lambdamart", "dnn"),
        "after Islam, Vasilaky, Zheleva, with the position effect of the textbook control function",
        "conditional click model: relevance and position effect together, and control terms if asked for",
        "unskew.control.full:FullControlFunction",
    ),
    MethodInfo(
        "pijd",
        "selection",
        _ANY,
        "Ovaisi, Vasilaky, Zheleva: Propensity-independent bias recovery in offline learning-to-rank systems, "
        "SIGIR 2021",
        "two-stage selection correction: a Heckman ratio beside the features",
        "unskew.baselines.pijd:PIJD",
    ),
    MethodInfo(
        "pijd-linear",
        "selection",
        ("linear",),
        "Ovaisi, Ahsan, Zhang, Vasilaky, Zheleva: Correcting for selection bias in learning-to-rank systems, WWW 2020",
        "both stages linear, as in the authors' code",
        "unskew.baselines.pijd:PIJDLinear",
    ),
    MethodInfo(
        "paird",
        "pairwise",
        ("lambdamart",),
        "Hu, Wang, Peng, Li: Unbiased LambdaMART, WWW 2019",
        "pairs divided by the position ratios of clicked and unclicked items",
        "unskew.baselines.paird:PairD",
    ),
    MethodInfo(
        "upe",
        "examination",
        ("dnn",),
        "Luo, Zou, Ai, Chen, Yin, Davison: Unbiased learning-to-rank needs unconfounded propensity estimation, "
        "SIGIR 2024",
        "dual learning with a propensity net that is told the logging policy's confidence",
        "unskew.baselines.upe:UPE",
    ),
    MethodInfo(
        "multr",
        "examination",
        ("dnn",),
        "Luo, Zou, Ai, Chen, Li, Yin, Davison: Model-based unbiased learning to rank, WSDM 2023",
        "a user simulator fills in the clicks of unseen lists",
        "unskew.baselines.multr:MULTR",
    ),
    MethodInfo(
        "pal",
        "examination",
        ("dnn",),
        "Guo, Yu, Liu, Tang, Zhang: PAL: a position-bias aware learning framework for CTR prediction, RecSys 2019",
        "click = seen at this position × relevant, both learnt together",
        "unskew.baselines.pal:PAL",
    ),
    MethodInfo(
        "rem",
        "examination",
        ("dnn",),
        "Wang, Golbandi, Bendersky, Metzler, Najork: Position bias estimation for unbiased learning to rank, WSDM 2018",
        "regression-based EM of a position-based click model",
        "unskew.baselines.rem:REM",
    ),
    MethodInfo(
        "dla",
        "examination",
        ("dnn",),
        "Ai, Bi, Luo, Guo, Croft: Unbiased learning to rank with unbiased propensity estimation, SIGIR 2018",
        "ranker and propensity model weigh each other's clicks",
        "unskew.baselines.dla:DLA",
    ),
    MethodInfo(
        "position",
        "ready-made",
        ("lambdamart",),
        "LightGBM, Dataset(position=…)",
        "an additive position effect beside the trees: f(x) + g(position)",
        "unskew.baselines.lgb_position:LightGBMPosition",
    ),
    MethodInfo(
        "xgb-unbiased",
        "ready-made",
        ("xgboost",),
        "XGBoost, lambdarank_unbiased",
        "XGBoost's own unbiased LambdaMART",
        "unskew.baselines.xgb_unbiased:XGBUnbiased",
    ),
)

_BY_NAME = {info.name: info for info in _METHODS}


def methods() -> list[MethodInfo]:
    """Every method, the recommended one and the references first.

    >>> [info.name for info in methods()][:3]
    ['default', 'naive', 'oracle']
    """
    return list(_METHODS)


def resolve(name: str) -> MethodInfo:
    """The method of that name, or an error listing them.

    >>> resolve("cfc").family
    'control function'
    """
    check_choice("method", name, _BY_NAME)
    return _BY_NAME[name]


def make_method(
    name: str,
    *,
    ranker: Any = None,
    preset: Preset = "default",
    random_state: int = 0,
    n_jobs: int | None = None,
    **settings: Any,
) -> Method:
    """The method of that name, ready to fit; `settings` are the method's own.

    >>> make_method("naive", preset="smoke")
    Naive(preset='smoke')
    """
    info = resolve(name)
    build = _import(info.factory)
    chosen = {"preset": preset, "random_state": random_state, "n_jobs": n_jobs, **info.settings, **settings}
    allowed = set(build._get_param_names())
    if "ranker" in allowed:
        chosen["ranker"] = info.rankers[0] if ranker is None else ranker
    elif ranker is not None and not isinstance(ranker, str):
        raise SettingError(f"The method '{info.name}' brings its own ranker, but {type(ranker).__name__} was given.")
    if isinstance(ranker, str) and ranker not in info.rankers:
        raise SettingError(
            f"The method '{info.name}' works with {_listed(info.rankers)}, but not with ranker '{ranker}'.\n"
            f"Methods that work with '{ranker}': {_listed(m.name for m in _METHODS if ranker in m.rankers)}."
        )
    unknown = sorted(set(settings) - allowed)
    if unknown:
        raise SettingError(
            f"The method '{info.name}' has no setting {_listed(unknown)}. It has: {_listed(sorted(allowed))}."
        )
    return build(**{key: value for key, value in chosen.items() if key in allowed})


def _import(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def _listed(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
