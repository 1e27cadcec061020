"""What the tests of the report share: a hostile model with its log, a run with made-up results, a parser."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from unskew.bench.collection import Source, read_collection
from unskew.bench.plan import Request, make_plan
from unskew.bench.store import Store
from unskew.bench.work import Result
from unskew.data.clicks import ClickLog
from unskew.data.fingerprint import fingerprint
from unskew.data.ranking import RankingData
from unskew.deploy.model import Model
from unskew.rankers.base import RankerState

HOSTILE = "</script><img src=http://x.example/a onerror=alert(1)>\"'&{{7*7}}\u2028\u202e"


@dataclass
class Parsed(HTMLParser):
    """What a page loads and holds: addresses in src and href, handlers, elements, and the text of its scripts."""

    loads: list[str] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)
    scripts: list[tuple[dict[str, str | None], str]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    policy: str = ""
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._inside: dict[str, str | None] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        if named.get("http-equiv") == "Content-Security-Policy":
            self.policy = named["content"] or ""
        if tag == "script":
            self._inside = named
            self.scripts.append((named, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        else:
            self.text += data

    @property
    def charts(self) -> list[dict[str, object]]:
        return json.loads(next(text for named, text in self.scripts if named.get("type") == "application/json"))


def parse(page: str) -> Parsed:
    found = Parsed()
    found.feed(page)
    found.close()
    return found


@pytest.fixture(scope="session")
def parse_page() -> Callable[[str], Parsed]:
    """Reads a page as a browser would, without running it."""
    return parse


@pytest.fixture(scope="session")
def hostile_text() -> str:
    """What an item id, a feature or a method may be called by somebody who means no good."""
    return HOSTILE


def hostile_log(queries: int = 60, items: int = 12, passes: int = 8) -> ClickLog:
    rng = np.random.default_rng(3)
    n = queries * items
    features = rng.normal(size=(n, 3)).astype(np.float32)
    data = RankingData.from_arrays(
        features,
        sizes=[items] * queries,
        grades=rng.integers(0, 3, n),
        query_ids=[f"{HOSTILE}{i}" for i in range(queries)],
        item_ids=[f"<b onclick='x()'>{i}</b>" for i in range(n)],
        feature_names=[HOSTILE, "image", "a.b[0]"],
    )
    order = np.argsort(-features[:, 0].reshape(queries, items) + 0.3 * rng.normal(size=(queries, items)), axis=1)
    rows = (order + np.arange(queries)[:, None] * items).ravel()
    position = np.tile(np.arange(1, items + 1), queries)
    click = rng.random((passes, n)) < 0.6 / position
    return ClickLog.from_arrays(
        data,
        row=np.tile(rows, passes),
        session=np.repeat(np.arange(queries * passes), items),
        position=np.tile(position, passes),
        click=click.ravel().astype(int),
    )


@pytest.fixture(scope="session")
def hostile_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ClickLog]:
    """A saved linear model whose names would like to run scripts, and the log it says it was fitted on."""
    log = hostile_log()
    content = json.dumps({"coefficients": [0.2, 1.0, -0.5], "intercept": 0}).encode()
    state = RankerState("linear", {"model.json": content}, log.data.feature_names, 3)
    positions = list(range(1, 13))
    facts = {
        "method": "position",
        "settings": {"ranker": "lambdamart", "preset": "smoke", "random_state": 4, "note": HOSTILE},
        "data": fingerprint(log),
        "candidates": [{"setting": {"trees": 10, HOSTILE: 1}, "score": 0.5}, {"setting": {"trees": 20}, "score": 0.52}],
        "bias": {"position": positions, "value": [1 / k for k in positions], "low": None, "high": None},
        "extra": {},
    }
    folder = tmp_path_factory.mktemp("report") / "model"
    Model.from_state(state, facts=facts).save(folder)
    return folder, log


METRICS = tuple(f"{family}@{cut}" for family in ("ndcg", "err") for cut in (1, 3, 5, 10))
QUALITY = {"naive": 0.40, "cfc": 0.42, "position": 0.47, "oracle": 0.50}


@pytest.fixture(scope="session")
def made_up_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose results are drawn around known qualities: no method is fitted."""
    folder = tmp_path_factory.mktemp("report-run") / "run"
    store, source = Store(folder), Source("synthetic:60")
    collection = read_collection(source)
    names = tuple(f"{name}/lambdamart" for name in QUALITY)
    requests = [
        Request("rq1", methods=names, folds=2),
        Request("rq2", methods=names, folds=1),
        Request("residuals", folds=1),
    ]
    position = np.arange(1, 21)
    log = {
        "queries": 36,
        "sessions": 360,
        "impressions": 7200,
        "clicks": 400,
        "production_ndcg@10": 0.41,
        "by_position": {"position": position, "impressions": np.full(20, 360.0), "rate": 0.2 / position},
    }
    for request in requests:
        plan = make_plan(request, collection, source)
        store.write_plan(plan)
        for unit in plan.units:
            store.write(unit, _result(unit, log, position))
    return folder


def _result(unit, log, position) -> Result:
    from unskew.deploy.manifest import plain

    seconds = {"log": 0.1, "stage_one": 0.2, "fit": 1.5 + unit.fold, "test": 0.1}
    if unit.kind == "residuals":
        at = np.linspace(-1, 1, 40)
        finding = {"level": "weak", "about": "stage one", "text": "Nearly nothing is left over."}
        record = {
            "log": log,
            "density": {"residual": at, "density": np.exp(-8 * at**2)},
            "diagnostics": {"findings": [finding]},
        }
        values = {
            "mean |residual|": 0.1,
            "variance": 0.02,
            "FK": 9.0,
            "FK p": 0.4,
            "features with changing spread": 0.3,
            "r2": 0.9,
        }
        return Result([], {}, values, plain(record), seconds)
    rng = np.random.default_rng([unit.fold, unit.seed])
    noise = rng.normal(0, 0.05, 40)
    quality = QUALITY[unit.method] - (0.02 * unit.cell.eta if unit.method != "oracle" else 0)
    own = np.random.default_rng(len(unit.method)).normal(0, 0.01, 40)
    metrics = dict.fromkeys(METRICS, quality + noise + own)
    curve = {"position": position, "value": 1 / position, "low": None, "high": None, "confidence": None}
    record = {
        "log": log,
        "planted_curve": 1 / position,
        "curve": curve if unit.method == "position" else None,
        "learnt": {"stage_one": {"r2": 0.5}, "control_gain_share": 0.3} if unit.method == "cfc" else {},
    }
    return Result([f"q{unit.fold}-{i}" for i in range(40)], metrics, {}, plain(record), seconds)
