"""The experiments: each a question, the settings it varies, and the methods it compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from unskew.bench.cells import Cell
from unskew.errors import check_choice

Kind = Literal["ranking", "residuals", "referee"]
Tuning = Literal["grades", "clicks"]

RANKERS = ("lambdamart", "dnn")
REFERENCES = ("naive", "oracle")
# Methods that know the settings of the two stages; a setting's options are meant for them alone.
CONTROL = ("cfc", "cfc-s", "cfc-bc")

_TREES = ("naive", "oracle", "cfc", "full-cfc", "pijd", "paird", "position")
_MORE_CONTROL = ("cfc-s", "cfc-bc")
_NEURAL = ("upe", "multr", "pal", "rem", "dla")
_OTHER_RANKERS = ("naive/xgboost", "xgb-unbiased/xgboost", "oracle/xgboost", "pijd-linear/linear")
EVERY = (*_TREES, *_MORE_CONTROL, *_NEURAL, *_OTHER_RANKERS)
# The neural methods of a sweep in the default preset: what naive, the paper, its closest rival and grades come to.
_SWEEP = (
    *(f"{name}/lambdamart" for name in _TREES),
    "naive/dnn",
    "cfc/dnn",
    "dla/dnn",
    "oracle/dnn",
)
_SMOKE = ("naive/lambdamart", "cfc/lambdamart", "oracle/lambdamart")
LANDMARKS = (1, 3, 5, 10)


@dataclass(frozen=True)
class Setting:
    """One column of an experiment.

    name : as tables show it; a swept number is written "eta=1.5".
    cell : how its clicks are made.
    options : what the control-function methods are told.
    methods : the methods of this setting, if not the experiment's.
    """

    name: str = "base"
    cell: Cell = field(default_factory=Cell)
    options: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Experiment:
    """A question and how it is answered.

    settings × methods × folds × seeds are the units of work. A method is a name (with every ranker of the experiment
    that it knows) or "name/ranker"; "name:setting=value" is a variant of it.

    kind : "ranking" fits methods and ranks test queries; "residuals" looks at stage one alone, "referee" at what
        the referee says about a log.
    tuning : "grades" chooses settings on human grades; "clicks" on debiased clicks for the control function and on
        clicks for the others (the oracle keeps its grades).
    brief, smoke : methods of the presets "default" (None: all of them) and "smoke".
    folds, seeds : of the default preset; folds are out of five.
    tries : settings every method may try, where that is not the preset's number.
    average : with trees, the score is the mean of so many models, each fitted without a part of the log's queries;
        methods that average by themselves are left to it.
    """

    name: str
    asks: str
    settings: tuple[Setting, ...] = (Setting(),)
    methods: tuple[str, ...] = EVERY
    rankers: tuple[str, ...] = RANKERS
    kind: Kind = "ranking"
    tuning: Tuning = "grades"
    brief: tuple[str, ...] | None = None
    smoke: tuple[str, ...] = _SMOKE
    folds: int = 3
    seeds: int = 1
    tries: int | None = None
    average: int = 1
    needs_log: bool = False


def _sweep(name: str, values: tuple[Any, ...]) -> tuple[Setting, ...]:
    return tuple(Setting(f"{name}={value:g}", Cell(**{name: value})) for value in values)


_SHARES = (0.01, 0.1, 0.2, 0.3, 1.0)
_FEW = ("naive", "oracle", "cfc", "position")
_TERMS = ("full-cfc:terms=T", "full-cfc:terms=phi", "full-cfc:terms=shift")
# A method told the examination that the simulator used: what it could do if nothing about position had to be learnt.
PLANTED = "planted"
TOLD = f"full-cfc:examination={PLANTED}"


def knows_more(method: str) -> bool:
    """Whether a method is told what no click log says, human grades or the planted examination: it takes no prizes.

    >>> knows_more("oracle"), knows_more("full-cfc:examination=planted"), knows_more("full-cfc")
    (True, True, False)
    """
    return method == "oracle" or f"examination={PLANTED}" in method


# Where items move from session to session a log has many more rows, so fewer methods are compared there.
_FEWER_HIDDEN = ("naive", "oracle", "full-cfc", TOLD, f"{TOLD}:terms=shift", "default", "position")
_HIDDEN_METHODS = (*_FEWER_HIDDEN, *_TERMS, "cfc")
_TRUTH_TREES = (
    *(f"{name}/lambdamart" for name in ("naive", "oracle", "cfc", "cfc-s", "default", "pijd", "paird", "position")),
    "xgb-unbiased/xgboost",
    f"{TOLD}/lambdamart",
)
_TRUTH_ALL = (
    *_TRUTH_TREES,
    *(f"{name}/dnn" for name in ("naive", "oracle", "cfc", "full-cfc", "pijd", *_NEURAL)),
)
# One T, fixed beforehand: everybody then has one candidate, its number of trees chosen on validation.
_ONE_T = {"transformation": "minmax"}


# Lists in which chance swapped a few items.
SWAPS = "eta=1, swaps"
# A planted confounder: one item in five was moved far, up or down, for a reason that also moves clicks.
MOVED_FAR = "a few moved far, with reason"
_CONFOUNDED: Mapping[str, Any] = {"shock": 6.0, "shock_share": 0.2, "shock_moves_clicks": True}


def _hidden(name: str, methods: tuple[str, ...] | None = None, **cell: Any) -> Setting:
    return Setting(name, Cell(**cell), _ONE_T, methods)


def _truth(name: str, *, neural: bool = False, **cell: Any) -> Setting:
    return Setting(name, Cell(**cell), _ONE_T, _TRUTH_ALL if neural else None)


EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "rq1",
            "How do all methods do, tuned on human grades?",
            folds=5,
            smoke=(*(f"{name}/lambdamart" for name in _TREES), "naive/dnn", "oracle/dnn"),
        ),
        Experiment(
            "rq2", "What if position bias is milder or harsher?", _sweep("eta", (0.5, 1.0, 1.5, 2.0)), brief=_SWEEP
        ),
        Experiment(
            "rq3",
            "How do they do on a real log, against separate judgments?",
            (Setting("log", options={"stage_one": "xgboost"}),),
            tuple(name for name in EVERY if not name.startswith("oracle")),
            smoke=("naive/lambdamart", "cfc/lambdamart", "position/lambdamart"),
            needs_log=True,
        ),
        Experiment("rq4", "What if settings must be chosen on clicks?", tuning="clicks", brief=_SWEEP),
        Experiment("rq5", "What do more clicks bring?", _sweep("passes", (1, 10, 20)), brief=_SWEEP),
        Experiment(
            "rq6",
            "What if people click on what is not relevant?",
            _sweep("noise", (0.0, 0.05, 0.1, 0.15, 0.2)),
            brief=_SWEEP,
        ),
        Experiment(
            "rq7",
            "What if some items are swapped at random?",
            (Setting("deterministic"), Setting("swaps", Cell(landmarks=LANDMARKS))),
            brief=_SWEEP,
        ),
        Experiment(
            "production",
            "Does the strength of the production ranker matter?",
            _sweep("production", _SHARES),
            _FEW,
            ("lambdamart",),
        ),
        Experiment(
            "residual-only",
            "Residual-by-feature terms (cfc), or the residual alone (cfc-s)?",
            methods=(*REFERENCES, "cfc", "cfc-s"),
            smoke=(*_SMOKE, "cfc-s/lambdamart"),
        ),
        Experiment(
            "stage-one",
            "Does it matter what explains the rank in stage one?",
            (
                Setting("ridge"),
                *(Setting(name, options={"stage_one": name}) for name in ("logistic", "svm", "xgboost")),
            ),
            (*REFERENCES, "cfc"),
            ("lambdamart",),
        ),
        Experiment(
            "residuals",
            "What does stage one leave over, by production ranker?",
            _sweep("production", _SHARES),
            ("cfc",),
            ("lambdamart",),
            kind="residuals",
            smoke=("cfc/lambdamart",),
            folds=5,
        ),
        Experiment(
            "validation",
            "Is tuning on debiased clicks (cfc) better than on clicks (cfc-bc)?",
            methods=(*REFERENCES, "cfc", "cfc-bc"),
            rankers=("lambdamart",),
            tuning="clicks",
            smoke=(*_SMOKE, "cfc-bc/lambdamart"),
            folds=5,
        ),
        Experiment(
            "placebo",
            "Does the correction do more than residuals that mean nothing?",
            (
                Setting("true T"),
                Setting("T permuted", options={"placebo": "permuted"}),
                Setting("T constant", options={"placebo": "constant"}),
                Setting("eta=0", Cell(eta=0.0)),
            ),
            (*REFERENCES, "cfc", "default"),
            ("lambdamart",),
        ),
        Experiment(
            "inference",
            "Control terms at inference: zero, T(0), or centred so that both agree?",
            (
                Setting("zero"),
                Setting("t0", options={"inference": "t0"}),
                Setting("centred", options={"centred": True}),
                Setting("centred, separate", options={"centred": True, "separate": True}),
            ),
            (*REFERENCES, "cfc", "cfc-s"),
            ("lambdamart",),
        ),
        Experiment(
            "referee",
            "Does the referee find what was planted, and nothing else?",
            (
                Setting("eta=0", Cell(eta=0.0)),
                Setting("eta=1"),
                Setting(MOVED_FAR, Cell(**_CONFOUNDED)),
                Setting("eta=1, T permuted", options={"placebo": True}),
                Setting(SWAPS, Cell(landmarks=LANDMARKS)),
            ),
            ("default",),
            ("lambdamart",),
            kind="referee",
            smoke=("default/lambdamart",),
            folds=5,
            seeds=20,
        ),
        Experiment(
            "hidden",
            "Do control terms earn their keep when the logging policy knew more than the learner?",
            (
                _hidden("nothing hidden"),
                *(_hidden(f"hidden={n}", hidden=n) for n in (2, 4, 8)),
                _hidden("shock", shock=1.0),
                _hidden("shock moves clicks", shock=1.0, shock_moves_clicks=True),
                _hidden(
                    "shock per session moves clicks",
                    _FEWER_HIDDEN,
                    shock=1.0,
                    shock_moves_clicks=True,
                    shock_per="session",
                ),
                _hidden(MOVED_FAR, **_CONFOUNDED),
                _hidden(f"{MOVED_FAR}, and swaps", _FEWER_HIDDEN, **_CONFOUNDED, landmarks=LANDMARKS),
            ),
            _HIDDEN_METHODS,
            ("lambdamart",),
            smoke=(*_SMOKE, "full-cfc/lambdamart", "full-cfc:terms=shift/lambdamart"),
            folds=5,
            seeds=3,
            tries=1,
            average=4,
        ),
        Experiment(
            "truth",
            "What works where? One factor at a time around the base case, and the hard corners",
            (
                _truth("base", neural=True),
                _truth("eta=0.5", eta=0.5),
                _truth("eta=1.5", eta=1.5),
                _truth("eta=2", eta=2.0),
                _truth("noise=0.1", noise=0.1),
                _truth("production=1", production=1.0),
                _truth("swaps", landmarks=LANDMARKS),
                _truth("hidden=4", hidden=4),
                _truth("eta=2, noise=0.1", neural=True, eta=2.0, noise=0.1),
                _truth("production=1, swaps", production=1.0, landmarks=LANDMARKS),
                _truth("production=1, hidden=4", neural=True, production=1.0, hidden=4),
            ),
            _TRUTH_TREES,
            folds=5,
            seeds=3,
            tries=1,
            average=4,
            smoke=(*_SMOKE, "position/lambdamart", "default/lambdamart", f"{TOLD}/lambdamart"),
        ),
    )
}


def experiment(name: str) -> Experiment:
    """The experiment of that name, or an error listing them.

    >>> experiment("rq2").settings[0].name
    'eta=0.5'
    """
    check_choice("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
