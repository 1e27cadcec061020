"""`unskew simulate`, as a person calls it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from unskew.cli import app, commands  # noqa: F401  (importing registers)
from unskew.data.files import read_judged_table, read_log, write_judged
from unskew.data.letor import write_letor
from unskew.data.validation import validate_log
from unskew.simulation.log import simulate
from unskew.simulation.synthetic import synthetic_collection


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["simulate", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    path = tmp_path / "judged.txt"
    write_letor(synthetic_collection(40, features=8, typical=8, longest=20), path)
    return path


def test_a_log_from_letor_text(judged: Path, tmp_path: Path) -> None:
    out = tmp_path / "log.parquet"
    result = run(judged, "--out", out, "--max-grade", 4)
    for words in ("Production ranker: RankSVM on", "NDCG@10", "click density", "list length", "log.parquet"):
        assert words in result.stdout
    assert "0.01 of 40 queries is none, too few" in result.stderr
    assert validate_log(out).status != "FAIL"
    log = read_log(out)
    assert log.data.max_grade == 4
    assert log.n_sessions == 10 * log.data.n_queries


def test_the_same_as_the_library(tmp_path: Path) -> None:
    run("synthetic:30", "--out", tmp_path / "log.parquet", "--eta", 2, "--noise", 0.1, "--passes", 4, "--seed", 3)
    log = read_log(tmp_path / "log.parquet")
    expected = simulate(synthetic_collection(30, seed=3), eta=2, noise=0.1, passes=4, seed=3)
    assert log.click.tolist() == expected.click.tolist()
    assert log.row.tolist() == expected.row.tolist()
    assert log.logging_score.tolist() == expected.logging_score.tolist()


@pytest.mark.parametrize("more", [["--shock-share", 0.1], ["--shock-per", "session"], ["--shock-moves-clicks"]])
def test_what_says_more_about_a_shock_needs_one(tmp_path: Path, more: list[object]) -> None:
    words = ["synthetic:30", "--out", tmp_path / "log.parquet", *more]
    said = run(*words, code=2).stderr
    assert str(more[0]) in said
    assert "such as --shock 1" in said
    assert not list(tmp_path.iterdir())
    run(*words, "--shock", 1)


def test_the_same_seed_gives_the_same_bytes(judged: Path, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.parquet", "b.parquet", "c.parquet")]
    for path, seed in zip(paths, (5, 5, 6)):
        run(judged, "--out", path, "--landmarks", "1,3,5,10", "--seed", seed, "--quiet")
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].read_bytes() != paths[2].read_bytes()


def test_json_is_one_document(judged: Path, tmp_path: Path) -> None:
    options = ("--hidden", 2, "--valid", 0.2, "--test", 0.25, "--features", tmp_path / "features.parquet")
    document = json.loads(run(judged, "--out", tmp_path / "log.parquet", *options, "--json").stdout)
    assert document["settings"]["eta"] == 1.0
    assert len(document["settings"]["hidden"]) == 2
    assert 0 < document["production"]["ndcg@10"] < 1
    assert document["test"]["queries"] == 10
    assert document["valid"]["queries"] == 8
    assert document["log"]["queries"] + document["production"]["queries"] == 22
    for path in document["files"].values():
        assert Path(path).exists()
    assert read_judged_table(document["files"]["test"]).n_features == 6


def test_published_validation_data(judged: Path, tmp_path: Path) -> None:
    other = tmp_path / "valid.parquet"
    collection = synthetic_collection(12, features=8, typical=8, longest=20, seed=1)
    write_judged(collection.with_features(collection.features, [f"f{i + 1}" for i in range(8)]), other)
    run(judged, "--out", tmp_path / "log.parquet", "--valid", other)
    valid = read_log(tmp_path / "log.valid.parquet")
    assert valid.data.n_queries == 12


def test_quiet_says_nothing(tmp_path: Path) -> None:
    assert run("synthetic:20", "--out", tmp_path / "log.csv", "--quiet").output == ""
    assert (tmp_path / "log.csv").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--landmarks", "1,x"), "landmarks must be ranks separated by commas"),
        (("--landmarks", "0"), "landmarks must be ranks, 1 or greater"),
        (("--eta", "-1"), "eta must be 0 or greater"),
        (("--noise", "1"), "noise must be"),
        (("--passes", "0"), "passes must be"),
        (("--production", "2"), "share must lie in (0, 1]"),
        (("--max-grade", "1"), "between 0 and 1"),
        (("--valid", "nowhere.parquet"), "nowhere.parquet"),
        (("--test", "1"), "leave something for training"),
        (("--hidden", "99"), "hidden must leave"),
    ],
)
def test_wrong_use(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    result = run("synthetic:20", "--out", tmp_path / "log.parquet", *options, code=2)
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_data_that_is_not_there(tmp_path: Path) -> None:
    assert "nothing.txt" in run("nothing.txt", "--out", tmp_path / "log.parquet", code=2).stderr


def test_a_name_that_cannot_be_written(tmp_path: Path) -> None:
    assert ".parquet or .csv" in run("synthetic:20", "--out", tmp_path / "log.txt", code=2).stderr


LETOR = {"mq2007-part": 2, "mq2008": 2, "mslr-10k-fold1-train-5k": 4, "mslr-10k-fold1-test-5k": 4}


@pytest.mark.realdata
@pytest.mark.parametrize("name", LETOR)
def test_real_collections(name: str, tmp_path: Path) -> None:
    folder = os.environ.get("UNSKEW_TEST_DATA")
    if not folder:
        pytest.skip("UNSKEW_TEST_DATA is not set")
    source = Path(folder) / "letor" / f"{name}.txt.xz"
    logs = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for log in logs:
        document = json.loads(run(source, "--max-grade", LETOR[name], "--out", log, "--json").stdout)
    assert logs[0].read_bytes() == logs[1].read_bytes()
    assert validate_log(logs[0]).status != "FAIL"
    assert document["production"]["queries"] >= 5
    assert document["log"]["clicks"] > 50


@pytest.mark.parametrize("grade", [0, 31, 99])
def test_a_largest_grade_that_no_log_may_have(judged: Path, tmp_path: Path, grade: int) -> None:
    """What is written must be readable again."""
    result = run(judged, "--out", tmp_path / "log.parquet", "--max-grade", grade, code=2)
    assert "between 1 and 30" in result.stderr
    assert not (tmp_path / "log.parquet").exists()


@pytest.mark.parametrize("name", ["log.parquet", "log.valid.parquet", "log.test.parquet", "features.parquet"])
def test_what_is_read_is_not_replaced(tmp_path: Path, name: str) -> None:
    synthetic_collection(30).to_frame().write_parquet(tmp_path / name)
    before = (tmp_path / name).read_bytes()
    options = ["--valid", "0.2", "--test", "0.2", "--features", tmp_path / "features.parquet"]
    result = run(tmp_path / name, "--out", tmp_path / "log.parquet", *options, code=2)
    assert "Name another output" in result.stderr
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(name, before)]


def test_text_with_the_line_ends_of_old_machines(tmp_path: Path) -> None:
    (tmp_path / "cr.txt").write_bytes(b"1 qid:1 1:0.5\r0 qid:1 1:0.2\r")
    result = run(tmp_path / "cr.txt", "--out", tmp_path / "log.parquet", code=2)
    assert "CR alone" in result.stderr
