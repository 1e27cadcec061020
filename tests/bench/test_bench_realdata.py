"""The bench on MQ2008: official parts, a short run, its tables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unskew.bench.collection import Source, read_collection
from unskew.bench.outcomes import open_run
from unskew.bench.plan import Request
from unskew.bench.run import run
from unskew.bench.tables import rows

pytestmark = pytest.mark.realdata


@pytest.fixture
def mq2008() -> Source:
    folder = os.environ.get("UNSKEW_TEST_DATA")
    if not folder:
        pytest.skip("UNSKEW_TEST_DATA names no folder")
    return Source(str(Path(folder) / "letor" / "mq2008.txt.xz"), max_grade=2)


def test_mq2008_is_split_as_published(mq2008: Source) -> None:
    collection = read_collection(mq2008)
    assert (collection.label, collection.how) == ("mq2008", "official parts, 3/1/1")
    train, valid, test = collection.split(0)
    assert (train.n_rows, valid.n_rows, test.n_rows) == (9630, 2707, 2874)
    tested = [query for k in range(5) for query in collection.split(k)[2].query_ids.to_list()]
    assert len(tested) == len(set(tested)) == 784


def test_a_short_run(mq2008: Source, tmp_path: Path) -> None:
    request = Request("rq1", "smoke", ("naive", "oracle", "full-cfc"), ("lambdamart",), folds=2)
    summary = run([request], mq2008, tmp_path / "run", jobs=0, threads=1)
    assert not summary.failures
    found = {row["method"]: row for row in rows(open_run(tmp_path / "run")[0]) if row["metric"] == "ndcg@10"}
    assert found["naive"]["mean"] < found["oracle"]["mean"]
    assert found["oracle"]["n"] == 2
    assert found["oracle"]["published"] is None  # MQ2008 is none of the paper's
