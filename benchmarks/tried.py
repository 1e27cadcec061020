"""What might have made the full control function better, measured beside it on the half that may be looked at.

python -m benchmarks.tried mq2007.txt.xz --max-grade 2 --out docs/tried.md

Every line of the page is a change to `full-cfc`, fitted to the same clicks and tested on the same queries. Units of
work are kept in the folder --work, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from unskew._files import atomic_path
from unskew._segments import offsets_of
from unskew.bench.cells import Cell
from unskew.bench.collection import Source, read_collection
from unskew.bench.editions import EDITION
from unskew.bench.material import make_material
from unskew.bench.store import versions
from unskew.control.aggregate import Exposures
from unskew.control.click_fit import PRESETS, ClickFit, click_table, fit_clicks
from unskew.control.click_model import QueryClicks
from unskew.control.forest_ranker import Forest
from unskew.control.groundwork import Shared
from unskew.control.stack import fit_stack
from unskew.data.clicks import ClickLog
from unskew.data.design import DesignMatrix
from unskew.data.ranking import RankingData
from unskew.evaluation.metrics import per_query
from unskew.rankers.lambdamart import LambdaMART
from unskew.simulation.log import without_features

Floats = npt.NDArray[np.float64]

MODELS = 4
# Gains become LambdaMART's labels: whole numbers up to this one, on the scale of its gain 2^label − 1.
LARGEST_LABEL = 5
MILD, HARSH = 0.5, 1.5
CELLS: Mapping[str, Cell] = {
    "base": Cell(),
    "η 2, noise": Cell(eta=2.0, noise=0.1),
    "strong ranker": Cell(production=1.0),
    "strong, hidden": Cell(production=1.0, hidden=4),
    "two classes": Cell(eta=MILD),
}
AS_IT_IS = "as it is"


@dataclass(frozen=True, eq=False)
class World:
    """Clicks to learn from and queries to test on.

    second : (queries of the table,) whether a query is of the second class, say from another device.
    ground : what the plain model left for others, its m(x) among it.
    """

    log: ClickLog
    table: Exposures
    second: npt.NDArray[np.bool_]
    test: RankingData
    seed: int
    preset: str
    ground: Shared = field(default_factory=dict)

    def fit(
        self, table: Exposures | None = None, *, seed: int = 0, trees: Mapping[str, Any] | None = None, **options: Any
    ) -> ClickFit:
        """The click model on the world's counts, or on others; `trees` are settings of theirs."""
        used = self.table if table is None else table
        settings = replace(PRESETS[self.preset], **(trees or {}))
        return fit_clicks(self.log, table=used, settings=settings, seed=self.seed + seed, threads=1, **options)

    @cached_property
    def plain(self) -> ClickFit:
        """The model as it is; changes that begin where it ends share it."""
        return self.fit(shared=self.ground)

    def scores(self, *fits: ClickFit) -> Floats:
        """(rows of the test queries,) the mean of the models' scores."""
        names = self.log.data.feature_names
        design = DesignMatrix(self.test.features)
        return np.mean([Forest(fit.forest(names)).predict(design) for fit in fits], axis=0)


def as_it_is(world: World) -> Floats:
    """Four parts of the queries held out in turn, the four models averaged."""
    return world.scores(world.plain)


def eight_folds(world: World) -> Floats:
    """Eight parts instead of four: more models in the mean, each from more of the queries."""
    return world.scores(world.fit(folds=8))


def four_seeds(world: World) -> Floats:
    """The whole fit four times, with other folds and trees: what averaging alone brings at four times the cost."""
    return world.scores(*(world.fit(seed=1000 * k) for k in range(MODELS)))


def four_bootstraps(world: World) -> Floats:
    """The whole fit four times, queries weighed by an exponential draw (a Bayesian bootstrap): bagging at that cost."""
    rng = np.random.default_rng(world.seed)
    draws = [rng.exponential(size=world.table.n_queries)[world.table.segment] for _ in range(MODELS)]
    weighed = [replace(world.table, shown=world.table.shown * w, clicks=world.table.clicks * w) for w in draws]
    return world.scores(*(world.fit(table) for table in weighed))


def without_place(world: World) -> Floats:
    """Without m(x), the place that stage one expects, among the parts."""
    nothing = replace(world.plain.place, held_out=np.zeros_like(world.plain.place.held_out))
    ground = {key: replace(one, place=nothing) for key, one in world.ground.items()}
    return world.scores(world.fit(shared=ground))


def third_step(world: World) -> Floats:
    """A list-wise model of the same kind, fitted to posterior gains instead of clicks."""
    table, gain = posterior_gains(world.plain)
    gains = replace(table, clicks=gain * (table.clicks.sum() / gain.sum()), shown=np.ones(len(table)))
    return world.scores(world.fit(gains, position=False))


def third_step_trees(world: World) -> Floats:
    """LambdaMART on posterior gains, the mean of four."""
    table, gain = posterior_gains(world.plain)
    share = np.clip(gain / max(np.quantile(gain, 0.99), 1e-12), 0, 1)
    label = np.rint(np.log2(1 + share * (2**LARGEST_LABEL - 1))).astype(np.int64)
    design = DesignMatrix(world.log.data.features, table.row)
    rankers = (LambdaMART(preset=world.preset, random_state=world.seed + k, n_jobs=1) for k in range(MODELS))
    test = DesignMatrix(world.test.features)
    return np.mean([one.fit(design, label, np.diff(table.offsets)).predict(test) for one in rankers], axis=0)


def curve_by_class(world: World) -> Floats:
    """The position effect of either class estimated on its own, then the model fitted anew with what came out."""
    fit, looks = world.plain, np.ones(len(world.table))
    if len(fit.used) != len(world.table):
        raise ValueError("The stack was fitted to a part of the queries: a log of this size is not meant here.")
    for of_class in (world.second, ~world.second):
        mine = of_class[fit.used.segment]
        clicks = QueryClicks.of(fit.used).without(~of_class)
        stack = fit_stack(fit.basis, fit.used.position, clicks, fit.parts)
        looks[mine] = np.exp(fit.basis.columns(fit.used.position) @ stack.effect)[mine]
    return world.scores(world.fit(replace(world.table, shown=world.table.shown * looks), position=False))


def without_caution(world: World) -> Floats:
    """The whole position effect corrected, however closely relevance follows the production ranker."""
    return world.scores(replace(world.plain, caution=None))


def cautious(world: World) -> Floats:
    """η less a standard error, and the model fitted anew: what a strong ranker knew makes η come out too large."""
    fit = world.plain
    effect = fit.stack.effect - np.eye(fit.basis.size)[0] * fit.stack.severity_error
    looks = np.exp(fit.basis.columns(world.table.position) @ effect)
    return world.scores(world.fit(replace(world.table, shown=world.table.shown * looks), position=False))


def larger_trees(world: World) -> Floats:
    """Trees of eight leaves that look for the best split, instead of four leaves and a random one."""
    return world.scores(world.fit(trees={"leaves": 8, "extra": False}))


CHANGES: Mapping[str, Callable[[World], Floats]] = {
    AS_IT_IS: as_it_is,
    "eight folds": eight_folds,
    "the mean of four fits": four_seeds,
    "bagging: the mean of four bootstraps": four_bootstraps,
    "without m(x)": without_place,
    "third step, list-wise": third_step,
    "third step, LambdaMART": third_step_trees,
    "a curve for each of two classes": curve_by_class,
    "without caution": without_caution,
    "η less a standard error": cautious,
    "larger trees": larger_trees,
}


def posterior_gains(fit: ClickFit) -> tuple[Exposures, Floats]:
    """The counts and (n,) posterior gains λ(α + c)/(α + µ), µ = λE the expected clicks of models that held it out.

    Relevance is Gamma distributed around λ with shape α, clicks are Poisson; α is the likeliest one. α → 0 weighs
    clicks by inverse examination, α → ∞ leaves them out.
    """
    table, clicks = fit.used, QueryClicks.of(fit.used)
    effect = fit.basis.columns(table.position) @ fit.stack.effect
    f = sum((fit.stack.weights[name] * part for name, part in fit.parts.items()), np.zeros(len(table)))
    expected = np.maximum(clicks.totals[clicks.segment] * clicks.shares(f + effect), 1e-12)
    alpha = likeliest_shape(table.clicks, expected)
    rate = expected / (table.shown * np.exp(effect))
    return table, rate * (alpha + table.clicks) / (alpha + expected)


def likeliest_shape(clicks: Floats, expected: Floats) -> float:
    """α of a Gamma–Poisson mixture (a negative binomial) with the expected clicks given."""

    def minus_likelihood(log_alpha: float) -> float:
        a = np.exp(log_alpha)
        return -float(np.sum(gammaln(a + clicks) - gammaln(a) + a * log_alpha - (a + clicks) * np.log(a + expected)))

    return float(np.exp(minimize_scalar(minus_likelihood, bounds=(-7, 12), method="bounded").x))


def make_world(source: Source, cell: str, fold: int, seed: int, preset: str) -> World:
    """Simulate; where classes differ, the second class's queries come from the harsher of two logs."""
    collection = read_collection(source)
    made = make_material(collection, CELLS[cell], fold, seed)
    table = click_table(made.log)
    # Independent of the features, like a device: chance decides, the same way for the same query.
    second = np.random.default_rng(seed + 7).random(made.log.data.n_queries) < 0.5
    if cell == "two classes":
        harsh = click_table(make_material(collection, Cell(eta=HARSH), fold, seed).log)
        table = joined(
            table.take(np.flatnonzero(~second[table.query])), harsh.take(np.flatnonzero(second[harsh.query]))
        )
    test = without_features(made.test, made.facts["hidden"])
    return World(made.log, table, second[table.query], test, seed, preset)


def joined(one: Exposures, other: Exposures) -> Exposures:
    """The queries of both, in the order of their numbers."""
    both = (one, other)
    sizes = np.concatenate([np.diff(table.offsets) for table in both])
    query = np.concatenate([table.query for table in both])
    fields = {
        name: np.concatenate([getattr(table, name) for table in both])
        for name in ("row", "position", "shown", "clicks")
    }
    stacked = Exposures(offsets=offsets_of(sizes), query=query, **fields)
    return stacked.take(np.argsort(query))


def measure(source: Source, preset: str, work: Path, unit: tuple[str, int, int]) -> dict[str, Any]:
    """NDCG@10 and seconds of every change on one log; from the folder if they are there already."""
    cell, fold, seed = unit
    kept = work / f"{list(CELLS).index(cell)}-{fold}-{seed}.json"
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))
    world = make_world(source, cell, fold, seed, preset)
    test = world.test
    grades = test.require_grades("Testing")
    largest = int(grades.max()) if test.max_grade is None else test.max_grade
    found: dict[str, Any] = {"cell": cell, "ndcg": {}, "seconds": {}}
    for name, change in CHANGES.items():
        started = time.process_time()
        scores = change(world)
        found["seconds"][name] = time.process_time() - started
        metrics = per_query(grades, scores, test.offsets, max_grade=largest, seed=seed)
        found["ndcg"][name] = float(np.nanmean(metrics["ndcg@10"]))
    with atomic_path(kept) as path:
        path.write_text(json.dumps(found), encoding="utf-8")
    return found


def page(found: Sequence[Mapping[str, Any]], said: str) -> str:
    """The table as Markdown: mean difference from the model as it is, in thousandths, ± its standard error."""
    lines = ["| change | " + " | ".join((*CELLS, "all", "time")) + " |", "|---|" + "---:|" * (len(CELLS) + 2)]
    for name in CHANGES:
        columns = [[one["ndcg"] for one in found if one["cell"] == cell] for cell in CELLS]
        cells = [difference(column, name) for column in (*columns, [one["ndcg"] for one in found])]
        base = sum(one["seconds"][AS_IT_IS] for one in found)
        # A change that begins where the plain model ends needs that model too.
        own = sum(one["seconds"][name] for one in found) + (base if name in ADDS else 0.0)
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {own / base:.1f} × |")
    return "\n\n".join([INTRO, said, "\n".join(lines), NOTES]) + "\n"


ADDS = (
    "third step, list-wise",
    "third step, LambdaMART",
    "a curve for each of two classes",
    "without caution",
    "η less a standard error",
)


def difference(values: Sequence[Mapping[str, float]], name: str) -> str:
    """A cell of the table; bold where it is more than two standard errors from nothing."""
    if not values:
        return "–"
    if name == AS_IT_IS:
        return f"{np.mean([one[name] for one in values]):.4f}"
    gain = 1000 * np.array([one[name] - one[AS_IT_IS] for one in values])
    if len(gain) < 2:
        return f"{gain.mean():+.1f}"
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    text = f"{gain.mean():+.1f} ± {error:.1f}".replace("-", "−")
    return f"**{text}**" if abs(gain.mean()) > 2 * error > 0 else text


INTRO = """# What was tried, and what became of it

Changes to the full control function, each fitted to the same clicks as the model as it is and tested on the same
queries: NDCG@10 of the model as it is, and below it the mean difference from it in thousandths ± its standard error
over logs (folds share queries, so the errors are a little small). Bold: more than two standard errors. `make tried`
does it again."""

NOTES = f"""- **eight folds**, **the mean of four fits**, **bagging**: more averaging, at the cost in the last column.
- **without m(x)**: the place that stage one expects, left out of the parts.
- **third step**: every item's clicks and the model's own expectation are joined to a posterior gain
  (Gamma–Poisson, its shape by maximum likelihood), and a second model is fitted to the gains: one of the same kind,
  or LambdaMART.
- **a curve for each of two classes**: queries fall into two classes by chance (a device, say), and each gets a
  position effect of its own. In the world *two classes* the classes do differ, η = {MILD:g} and {HARSH:g}; in the
  others they do not.
- **without caution**: nothing of the position effect is left to relevance where relevance follows the ranker's order.
- **η less a standard error**: the position effect less steep than estimated, because what a strong ranker knew
  passes for position; the model is then fitted anew with that effect.
- **larger trees**: eight leaves and the best split instead of four leaves and a random one.

What became of it: a change stays out unless it is better by two standard errors over all worlds, and m(x) and caution
stay in unless they are worse by as much; caution is there for the logs on which η comes out too large.
More averaging is there for who wants to pay for it: `FullControlFunction(folds=8)`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when the page was written."""
    options = _parser().parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    source = Source(options.data, max_grade=options.max_grade, half=options.half)
    units = [(cell, fold, seed) for cell in CELLS for fold in range(options.folds) for seed in range(options.seeds)]
    work = partial(measure, source, options.preset, options.work)
    found = []
    with _pool(options.jobs) as do:
        for one in do(work, units):
            found.append(one)
            print(f"{len(found)} of {len(units)}: {one['cell']}", file=sys.stderr, flush=True)
    made = ", ".join(f"{name} {version}" for name, version in versions().items())
    said = (
        f"{source.label}: {options.folds} of 5 folds × {options.seeds} click seeds a column; edition {EDITION}; {made}."
    )
    with atomic_path(options.out) as path:
        path.write_text(page(found, said), encoding="utf-8")
    print(options.out)
    return 0


@contextmanager
def _pool(jobs: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """A map over so many processes; 0: in this one."""
    if not jobs:
        yield map
        return
    # Started afresh: a forked copy of a process whose OpenMP has threads can wait for them forever.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield pool.map


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tried", description=__doc__)
    parser.add_argument("data", metavar="DATA", help="judged data: a file, or synthetic[:queries]")
    parser.add_argument("--max-grade", type=int, help="the largest grade of the file")
    parser.add_argument("--half", choices=("development",), help="only this half of the queries")
    parser.add_argument("--folds", type=int, default=5, help="folds to test on, of five")
    parser.add_argument("--seeds", type=int, default=2, help="click seeds")
    parser.add_argument("--preset", default="default", help="as in `unskew fit`")
    parser.add_argument("--jobs", type=int, default=2, help="processes; 0: this one")
    parser.add_argument("--work", type=Path, default=Path("out/tried"), help="where finished units are kept")
    parser.add_argument("--out", type=Path, default=Path("docs/tried.md"), help="the page to write")
    return parser


if __name__ == "__main__":
    sys.exit(main())
