"""Settings that take one of a few values, all in one place."""

from __future__ import annotations

from typing import Literal

Preset = Literal["default", "paper", "smoke"]
TuneOn = Literal["auto", "grades", "clicks", "debiased"]
Engine = Literal["auto", "memory", "stream", "dask"]
RankerName = Literal["lambdamart", "dnn", "xgboost"]
EmptyQueries = Literal["exclude", "zero", "one"]
MissingValues = Literal["refuse", "keep"]
ScalingName = Literal["minmax", "log", "standard"]

StageOneName = Literal["ridge", "logistic", "svm", "xgboost"]
# None is typed as "none" on the command line.
TermsOption = Literal["none", "T", "phi", "shift", "moves", "auto"]
RankTarget = Literal["global", "per_list", "raw"]
TransformationName = Literal["minmax", "normal_pdf", "inverse_mills", "hazard", "identity"]
Inference = Literal["zero", "t0"]
ControlForm = Literal["interaction", "residual"]

LoggingPolicy = Literal["production", "random"]
ShockScope = Literal["item", "session"]

Half = Literal["development", "untouched"]
TableFormat = Literal["markdown", "csv", "latex"]
