"""A plan: the units of work behind every number of an experiment's table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from unskew._options import Preset, TuneOn
from unskew.bench.collection import PARTS, Collection, Source
from unskew.bench.experiments import CONTROL, PLANTED, Experiment, Setting, experiment
from unskew.bench.scales import AVERAGED, SELF_TUNED, Scale, budget, folds_of, methods_of, scale, seeds_of, settings_of
from unskew.bench.units import Unit, pairs
from unskew.errors import SettingError, check_choice
from unskew.registry import make_method, resolve
from unskew.registry import methods as all_methods


@dataclass(frozen=True)
class Request:
    """What a person asked for; None leaves it to the preset."""

    experiment: str
    preset: Preset = "default"
    methods: tuple[str, ...] | None = None
    rankers: tuple[str, ...] | None = None
    folds: int | None = None
    seeds: int | None = None
    seed: int = 0
    average: int | None = None


@dataclass(frozen=True)
class Entry:
    """A place in the table and the unit that fills it; several places may share a unit."""

    setting: str
    method: str
    ranker: str
    unit: Unit


@dataclass(frozen=True, eq=False)
class Plan:
    """An experiment on a data set, spelt out.

    dataset : the published collection the data is, if any; how : how it was split; notes : what a reader must know.
    """

    experiment: str
    asks: str
    kind: str
    preset: str
    data: str
    dataset: str | None
    how: str
    source: Source
    folds: int
    seeds: tuple[int, ...]
    notes: tuple[str, ...]
    entries: tuple[Entry, ...]

    @property
    def units(self) -> list[Unit]:
        """Every unit once, in the order of the table."""
        return list({entry.unit.key: entry.unit for entry in self.entries}.values())

    @property
    def settings(self) -> list[str]:
        return list(dict.fromkeys(entry.setting for entry in self.entries))

    def to_json(self) -> str:
        """The plan as a file has it; equal plans have equal bytes."""
        document = {
            **{name: getattr(self, name) for name in _PLAIN},
            "source": self.source.to_dict(),
            "entries": [
                {"setting": e.setting, "method": e.method, "ranker": e.ranker, "unit": e.unit.to_dict()}
                for e in self.entries
            ],
        }
        return json.dumps(document, ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        document = json.loads(text)
        entries = [
            Entry(e["setting"], e["method"], e["ranker"], Unit.from_dict(e["unit"])) for e in document["entries"]
        ]
        known = {name: document[name] for name in _PLAIN}
        tuples = {name: tuple(known[name]) for name in ("seeds", "notes")}
        return cls(**{**known, **tuples, "source": Source(**document["source"]), "entries": tuple(entries)})


# What a table calls the "method" and the "ranker" of experiments that rank nothing.
WITHOUT_RANKER = {"residuals": ("stage-one", "none"), "referee": ("referee", "none")}
_PLAIN = ("experiment", "asks", "kind", "preset", "data", "dataset", "how", "folds", "seeds", "notes")


def make_plan(request: Request, collection: Collection, source: Source) -> Plan:
    """Spell out an experiment on a collection."""
    what, size = experiment(request.experiment), scale(request.preset)
    folds = _folds(request, what, collection.n_folds)
    count = seeds_of(what, request.preset) if request.seeds is None else request.seeds
    average = _average(what, request)
    if count < 1 or average < 1:
        raise SettingError(f"--seeds and --average must be 1 or greater, but are {count} and {average}.")
    seeds = tuple(range(request.seed, request.seed + count))
    entries = [
        Entry(setting.name, *WITHOUT_RANKER.get(what.kind, (method, ranker)), unit)
        for setting in settings_of(what, request.preset)
        for method, ranker in method_pairs(what, setting, request)
        for seed in seeds
        for fold in range(folds)
        for unit in [_unit(what, setting, method, ranker, fold, seed, collection.fingerprint, size, average)]
    ]
    if not entries:
        names = dict.fromkeys(n for s in what.settings for n in request.methods or methods_of(what, s, request.preset))
        raise SettingError(
            f"Nothing is left to run: {', '.join(names)} with {', '.join(request.rankers or what.rankers)}. "
            "`unskew methods` shows which method works with which ranker."
        )
    return Plan(
        experiment=what.name,
        asks=what.asks,
        kind=what.kind,
        preset=request.preset,
        data=collection.label,
        dataset=collection.dataset,
        how=collection.how,
        source=source,
        folds=folds,
        seeds=seeds,
        notes=tuple(_notes(what, size, request, folds, collection)),
        entries=tuple(entries),
    )


def count_units(name: str, preset: Preset) -> int:
    """Units that a preset makes of an experiment with five folds.

    >>> count_units("validation", "default")
    20
    """
    anything = Collection("", None, "", 1 if experiment(name).needs_log else PARTS, _no_data, "")
    return len(make_plan(Request(name, preset), anything, Source("")).units)


def _no_data(fold: int) -> Any:
    raise AssertionError("counting needs no data")


def method_pairs(what: Experiment, setting: Setting, request: Request) -> list[tuple[str, str]]:
    """Methods with their rankers: those named, or the preset's, with the rankers that were asked for, if any fits."""
    known = sorted({ranker for info in all_methods() for ranker in info.rankers})
    for ranker in request.rankers or ():
        check_choice("ranker", ranker, known)
    names = request.methods or methods_of(what, setting, request.preset)
    return list(dict.fromkeys(pair for name in names for pair in _pairs_of(name, what, request)))


def _pairs_of(name: str, what: Experiment, request: Request) -> Iterator[tuple[str, str]]:
    label, _, ranker = name.partition("/")
    name, options = variant(label)
    info = resolve(name)
    _check_variant(info.name, options)
    label = ":".join([info.name, *label.split(":")[1:]])
    if ranker:
        check_choice(f"ranker of '{info.name}'", ranker, info.rankers)
        wanted: Sequence[str] = (ranker,)
    else:
        wanted = [r for r in request.rankers or what.rankers if r in info.rankers]
        if not wanted and request.methods is not None and request.rankers is None:
            wanted = info.rankers[:1]  # named, but with none of the experiment's rankers
    for one in wanted:
        if request.rankers is None or one in request.rankers:
            yield label, one


def _check_variant(method: str, options: Mapping[str, Any]) -> None:
    if not options:
        return
    make_method(method, **options)  # refuses settings that the method has not
    if options.get("examination", PLANTED) != PLANTED:
        raise SettingError(
            f"The examination of '{method}' must be the planted one here, {method}:examination={PLANTED}, but "
            f"'{options['examination']}' was given."
        )


def variant(label: str) -> tuple[str, dict[str, Any]]:
    """The method behind a label, and the settings that it names.

    >>> variant("full-cfc:terms=T"), variant("cfc:centred=true:cross_fit=5"), variant("naive")
    (('full-cfc', {'terms': 'T'}), ('cfc', {'centred': True, 'cross_fit': 5}), ('naive', {}))
    """
    name, *settings = label.split(":")
    options = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise SettingError(f"'{label}' must name settings as {name}:setting=value, but '{setting}' has no value.")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return name, options


def _unit(
    what: Experiment,
    setting: Setting,
    label: str,
    ranker: str,
    fold: int,
    seed: int,
    data: str,
    size: Scale,
    average: int,
) -> Unit:
    method, named = variant(label)
    told = {**(setting.options if method in CONTROL or what.kind == "referee" else {}), **named}
    if what.kind in WITHOUT_RANKER:
        names = WITHOUT_RANKER[what.kind]
        return Unit(data, setting.cell, fold, seed, *names, what.kind, preset=size.preset, options=pairs(told))
    given = budget(method, ranker, told, _tries(what, size))
    return Unit(
        data=data,
        cell=setting.cell.for_oracle() if method == "oracle" else setting.cell,
        fold=fold,
        seed=seed,
        method=method,
        ranker=ranker,
        tune_on=_tune_on(what, method),
        preset=size.preset,
        options=pairs({**told, **given.options}),
        rates=given.rates,
        net=pairs(size.net) if ranker == "dnn" else (),
        average=1 if method in SELF_TUNED or ranker not in AVERAGED else average,
    )


def _average(what: Experiment, request: Request) -> int:
    if request.average is not None:
        return request.average
    return what.average if request.preset == "default" else 1


def _tries(what: Experiment, size: Scale) -> int | None:
    return size.tries if size.tries is None or what.tries is None else what.tries


def _tune_on(what: Experiment, method: str) -> TuneOn:
    if method == "cfc-bc":
        return "clicks"
    if what.tuning == "grades" or method == "oracle":
        return "grades"
    return "debiased" if method in CONTROL else "clicks"


def _folds(request: Request, what: Experiment, available: int) -> int:
    wanted = folds_of(what, request.preset) if request.folds is None else request.folds
    if request.folds is not None and not 1 <= request.folds <= max(available, PARTS):
        raise SettingError(f"--folds must lie between 1 and {max(available, PARTS)}, but {request.folds} was given.")
    return available if wanted is None else min(wanted, available)


def _notes(what: Experiment, size: Scale, request: Request, folds: int, collection: Collection) -> Iterator[str]:
    if folds < collection.n_folds:
        yield f"{folds} of {collection.n_folds} folds were tested."
    if request.methods is None and request.preset == "default" and what.brief is not None:
        left = [name for name in what.methods if not any(b.partition("/")[0] == name for b in what.brief)]
        yield f"Left out for time (they are in the paper preset): {', '.join(left)}."
    if request.preset == "smoke":
        yield "A smoke run: it shows that everything works, its numbers mean nothing."
    chosen = [pair for setting in what.settings for pair in method_pairs(what, setting, request)]
    if size.net and any(ranker == "dnn" for _, ranker in chosen):
        layers = "-".join(str(width) for width in size.net["hidden"])
        yield f"Neural nets have {layers} units and {size.net['steps']} steps; the paper preset has the published ones."
    tries = _tries(what, size)
    if what.kind == "ranking" and tries is not None:
        yield f"Every method chose among {tries} setting{'s' if tries > 1 else ''} (and its stages) on validation."
    alone = {name.partition(":")[0]: ranker for name, ranker in chosen if name.partition(":")[0] in SELF_TUNED}
    if what.kind == "ranking" and alone:
        own = ", with nets of a size of their own" if size.net and "dnn" in alone.values() else ""
        yield f"Not so {' and '.join(sorted(alone))}: chosen on clicks that the method itself held out{own}."
    if what.tuning == "grades" and any(name == "cfc-bc" for name, _ in chosen):
        yield "cfc-bc chose on clicks, which is what it is; all others on human grades."
    average = _average(what, request)
    if average > 1 and any(ranker in AVERAGED for _, ranker in chosen):
        yield (
            f"With trees, scores are means of {average} models, each fitted without a part of the log's queries (the "
            "first chooses the number of trees where nothing else is to be chosen); "
            f"{' and '.join(SELF_TUNED)} average by themselves."
        )
