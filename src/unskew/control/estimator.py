"""ControlFunctionRanker: the paper's method (Algorithm 1), faithful by default.

Where the paper is open, these readings hold; each can be changed by the setting named.

- Rank target: rank over the longest list (`rank_target="global"`).
- Residuals: in-sample for linear stage ones, cross-fitted for flexible ones (`cross_fit`).
- x̄: per query, over the items the data has for it.
- T: fitted once on training residuals; the inputs of stage two are x and Φ, not T itself.
- Inference: Φ = 0 (`inference="zero"`); "no residual shock" read literally is `inference="t0"`; with `centred=True`,
  T − T(0), the two agree.
- Selection without grades: one reference set of debiased clicks (T = min-max) judges every candidate, because each T's
  own debiased clicks would be a ruler of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from unskew._options import ControlForm, Inference, Preset, RankTarget, TuneOn
from unskew._segments import offsets_of
from unskew.control.debias import debiased_labels, fit_click_on_residual
from unskew.control.diagnostics import Diagnostics, diagnose
from unskew.control.stage_one import StageOne, fit_stage_one
from unskew.control.terms import control_terms, term_names
from unskew.control.transformations import Transformation, fit_transformation, transformation_list
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix, Terms, ZeroTerms
from unskew.data.holdout import hold_out
from unskew.data.inputs import as_matrix
from unskew.data.lists import TrainingLists, training_lists
from unskew.data.ranking import RankingData
from unskew.errors import ExportError, FeatureError, LogError, NotFittedError, SettingError, check_choice
from unskew.evaluation.judge import LabelJudge, make_judge
from unskew.method import Method, Outcome, Scores
from unskew.rankers.base import Judge
from unskew.rankers.make import make_ranker
from unskew.rankers.search import Trial, search, trials_of

REFERENCE_TRANSFORMATION = "minmax"
Placebo = Literal["permuted", "constant"]


class ControlFunctionRanker(Method):
    """Two-stage control-function correction around any ranker.

    Stage one explains the logged rank by the features (equation 4); stage two trains the ranker on the features and
    the control terms Φ = (x − x̄_q) ⊙ T(ε̂) (equation 7); at inference Φ = 0.

    ranker : "lambdamart", "dnn", "xgboost", or any object that follows unskew.rankers.base.Ranker.
    stage_one : "ridge", "logistic", "svm", "xgboost", a scikit-learn regressor, or a StageOne fitted to the same log.
    transformation : "auto" tries the paper's four on validation; or one name, a callable, or a list of them.
    form : "interaction" (CFC) or "residual" (CFC-S, T alone).
    centred, separate : T − T(0); no tree (or tower) may mix plain and control columns. Both off: the paper's form.
    tune_on : "auto" chooses by human grades where the validation data has them, else by debiased clicks.
    placebo : "permuted" or "constant" replaces T by what cannot correct anything, for checks.

    Learnt: stage_one_, transformation_, outcome_, candidates_, diagnostics.
    """

    name = "cfc"
    debiases = True

    def __init__(
        self,
        *,
        ranker: Any = "lambdamart",
        stage_one: Any = "ridge",
        rank_target: RankTarget = "global",
        cross_fit: int | None = None,
        transformation: Any = "auto",
        form: ControlForm = "interaction",
        inference: Inference = "zero",
        centred: bool = False,
        separate: bool = False,
        tune_on: TuneOn = "auto",
        preset: Preset = "default",
        placebo: Placebo | None = None,
        random_state: int = 0,
        n_jobs: int | None = None,
        progress: Callable[..., None] | None = None,
    ) -> None:
        self.ranker = ranker
        self.stage_one = stage_one
        self.rank_target = rank_target
        self.cross_fit = cross_fit
        self.transformation = transformation
        self.form = form
        self.inference = inference
        self.centred = centred
        self.separate = separate
        self.tune_on = tune_on
        self.preset = preset
        self.placebo = placebo
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress

    def _learn(self, log: ClickLog, validation: ClickLog | RankingData | None) -> Outcome:
        self._check_settings()
        if validation is None:
            log, validation = hold_out(log, seed=self.random_state)
        stage_one = self._stage_one(log)
        lists = training_lists(log)
        residuals = stage_one.residual(log, lists.row, lists.position)
        fitted = [fit_transformation(kind, stage_one.statistics) for kind in transformation_list(self.transformation)]
        if self.centred:
            fitted = [transformation.centred() for transformation in fitted]
        debiased = self._debiased(log, validation, stage_one)
        trials = self._trials(log, lists, residuals, fitted, validation, debiased)
        ranker, trial, candidates = search(trials, None, progress=self.progress)
        transformation = trial.setting["transformation"]
        self.stage_one_ = stage_one
        self.transformation_: Transformation = next(t for t in fitted if t.name == transformation)
        self.log_ = log
        self.__dict__.pop("diagnostics", None)
        names = term_names(self.form, log.data.feature_names)
        return Outcome(
            ranker=ranker,
            state=ranker.state((*log.data.feature_names, *names)),
            candidates=candidates,
            fixed=np.full(len(names), self._at_inference()) if self._foldable() else None,
            extra=self._facts(stage_one, ranker, trial.setting),
        )

    def _stage_one(self, log: ClickLog) -> StageOne:
        if isinstance(self.stage_one, StageOne):
            return self.stage_one
        return fit_stage_one(
            log,
            learner=self.stage_one,
            rank_target=self.rank_target,
            cross_fit=self.cross_fit,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    def _trials(
        self,
        log: ClickLog,
        lists: TrainingLists,
        residuals: npt.NDArray[np.float64],
        fitted: list[Transformation],
        validation: ClickLog | RankingData | None,
        debiased: npt.NDArray[np.float64] | None,
    ) -> Iterator[Trial]:
        """Transformation × the ranker's own grid, made one at a time so that one Φ exists at a time."""
        base = make_ranker(self.ranker, preset=self.preset, random_state=self.random_state, n_jobs=self.n_jobs)
        if self.separate:
            base = base.set_params(separate_terms=True)
        for transformation in fitted:
            value = self._value(transformation(residuals))
            yield from trials_of(
                base,
                DesignMatrix(log.data.features, lists.row, control_terms(log.data, self.form, value)),
                lists.label,
                lists.sizes,
                setting={"transformation": transformation.name},
                weight=lists.weight if lists.merged else None,
                judge=self._judge(validation, transformation, debiased),
            )

    def _value(self, value: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        if self.placebo == "permuted":
            return np.random.default_rng(self.random_state).permutation(value)
        if self.placebo == "constant":
            return np.full_like(value, value.mean())
        return value

    def _judge(
        self,
        validation: ClickLog | RankingData | None,
        transformation: Transformation,
        debiased: npt.NDArray[np.float64] | None,
    ) -> Judge | None:
        if validation is None:
            return None
        data = validation.data if isinstance(validation, ClickLog) else validation
        terms = self._inference_terms(data, transformation)
        if debiased is None:
            tune_on: TuneOn = "auto" if self.tune_on == "debiased" else self.tune_on
            return make_judge(validation, tune_on=tune_on, terms=terms, seed=self.random_state)
        assert isinstance(validation, ClickLog)
        rows = validation.rows_shown
        sizes = np.bincount(data.query_of_row[rows], minlength=data.n_queries)
        return LabelJudge(
            DesignMatrix(data.features, rows, terms),
            debiased,
            offsets_of(sizes),
            metric="dcg",
            seed=self.random_state,
        )

    def _debiased(
        self, log: ClickLog, validation: ClickLog | RankingData | None, stage_one: StageOne
    ) -> npt.NDArray[np.float64] | None:
        """Labels for selection without grades, the same for every candidate; None where grades or clicks decide."""
        if validation is None or self.tune_on in ("grades", "clicks"):
            return None
        judged = (validation.data if isinstance(validation, ClickLog) else validation).grades is not None
        if self.tune_on == "auto" and judged:
            return None
        if not isinstance(validation, ClickLog):
            raise SettingError(
                "Debiased clicks need a validation log (positions and clicks), but judged data without a log was given."
            )
        if validation.n_counted_clicks == 0:
            raise LogError("The validation log has no click at all, so it cannot choose between settings.")
        reference = fit_transformation(REFERENCE_TRANSFORMATION, stage_one.statistics)
        residual = stage_one.residual(log, log.row, log.position)
        clicks_on_residual = fit_click_on_residual(log, reference(residual))
        return debiased_labels(validation, stage_one=stage_one, transformation=reference, model=clicks_on_residual)

    def _inference_terms(self, data: RankingData, transformation: Transformation) -> Terms:
        """The control terms as inference has them: zero, or T(0) in place of T."""
        if self.inference == "zero":
            return ZeroTerms(term_names(self.form, data.feature_names))
        return control_terms(data, self.form, transformation.at_zero)

    def _at_inference(self) -> float:
        return 0.0 if self.inference == "zero" else self.transformation_.at_zero

    def _foldable(self) -> bool:
        """Whether the control terms are constants at inference; (x − x̄) T(0) depends on the query's other items."""
        return self.inference == "zero" or self.form == "residual" or self.transformation_.at_zero == 0.0

    def predict(self, features: Any, sizes: Any = None) -> Scores:
        """(n,) scores of plain features; `inference="t0"` also needs the queries: RankingData, or their `sizes`."""
        if hasattr(self, "outcome_") and not self._foldable():
            return self._predict_t0(features, sizes)
        return super().predict(features)

    def _predict_t0(self, features: Any, sizes: Any) -> Scores:
        matrix = as_matrix(features, list(self.feature_names_in_))
        if sizes is None and not isinstance(features, RankingData):
            raise FeatureError("inference='t0' needs each item's query: pass RankingData, or sizes=[items per query].")
        offsets = features.offsets if isinstance(features, RankingData) else offsets_of(sizes)
        if offsets[-1] != len(matrix):
            raise FeatureError(f"sizes add up to {offsets[-1]}, but there are {len(matrix)} items.")
        data = RankingData.from_arrays(matrix, offsets=offsets, feature_names=list(self.feature_names_in_))
        terms = control_terms(data, self.form, self.transformation_.at_zero)
        return self.outcome_.ranker.predict(DesignMatrix(data.features, None, terms))

    def to_model(self) -> Any:
        if hasattr(self, "outcome_") and not self._foldable():
            raise ExportError(
                "With inference='t0' the control terms depend on the query's other items, so no model over one item's "
                "features can be saved. Use inference='zero', or centred=True, where both agree."
            )
        return super().to_model()

    def control_terms(self, log: ClickLog | None = None) -> npt.NDArray[np.float32]:
        """(impressions, terms) Φ of the training log, or of another log over the same features."""
        if not hasattr(self, "stage_one_"):
            raise NotFittedError("ControlFunctionRanker is not fitted yet. Call fit(log) first.")
        log = self.log_ if log is None else log
        expected = self.stage_one_.expected if log.data is self.log_.data else self.stage_one_.explain(log.data)
        target = self.stage_one_.target.values(log, log.row, log.position)
        value = self.transformation_(target - expected[log.row])
        design = DesignMatrix(log.data.features, log.row, control_terms(log.data, self.form, value))
        return design.extra(slice(None))

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """Is the correction identified on this log? What did stage one explain?"""
        if not hasattr(self, "stage_one_"):
            raise NotFittedError("ControlFunctionRanker is not fitted yet. Call fit(log) first.")
        share = getattr(self.outcome_.ranker, "gain_share", lambda: None)()
        return diagnose(self.log_, stage_one=self.stage_one_, gain_share=share, seed=self.random_state)

    def _check_settings(self) -> None:
        check_choice("form", self.form, ("interaction", "residual"))
        check_choice("inference", self.inference, ("zero", "t0"))
        check_choice("tune_on", self.tune_on, ("auto", "grades", "clicks", "debiased"))
        check_choice("placebo", self.placebo, (None, "permuted", "constant"))

    def _facts(self, stage_one: StageOne, ranker: Any, setting: dict[str, Any]) -> dict[str, Any]:
        share = getattr(ranker, "gain_share", lambda: None)()
        return {
            "chosen": setting,
            "form": self.form,
            "inference": self.inference,
            "stage_one": {
                "learner": stage_one.learner,
                "rank_target": self.rank_target,
                "cross_fit": stage_one.folds,
                "r2": stage_one.r2,
                "residual_sd": stage_one.statistics.sd,
                "residual_mean_absolute": stage_one.statistics.mean_absolute,
            },
            "control_gain_share": share,
        }
