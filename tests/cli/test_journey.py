"""The way a person goes, through the command line: simulate, validate, diagnose, fit, rank, evaluate; and the demo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from unskew import load
from unskew._options import TermsOption
from unskew.cli import app, commands  # noqa: F401  (importing registers)
from unskew.control.term_source import TermsName


def unskew(*words: object, code: int = 0) -> dict:
    """Run a command with --json and return what it said."""
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return json.loads(result.stdout) if code == 0 else {"stderr": result.stderr}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("journey")
    unskew(
        "simulate", "synthetic:120", "--out", path / "log.parquet", "--valid", 0.2, "--test", 0.2, "--production", 0.05,
        "--passes", 4,
    )  # fmt: skip
    return path


def test_the_whole_way(folder: Path) -> None:
    assert unskew("validate", folder / "log.parquet")["status"] in ("PASS", "WARN")
    found = unskew("diagnose", folder / "log.parquet")
    assert found["verdict"] in ("fine", "weak", "bad")
    assert found["amount_of_data"]["level"] == "bad"
    assert 0 < found["stage_one"]["r2"] < 1
    files = []
    for method in ("naive", "cfc", "oracle"):
        fitted = unskew(
            "fit", folder / "log.parquet", "--valid", folder / "log.valid.parquet", "--out", folder / method,
            "--method", method, "--preset", "smoke", "--jobs", 1,
        )  # fmt: skip
        assert fitted["method"] == method
        assert (fitted["amount_of_data"] is None) == (method == "oracle")
        assert method == "oracle" or fitted["amount_of_data"]["level"] == "bad"
        assert "human grades" in fitted["chosen_on"]
        files.append(folder / f"{method}.parquet")
        unskew("rank", folder / method, folder / "log.test.parquet", "--out", files[-1])
    table = unskew("evaluate", folder / "log.test.parquet", *files)
    ndcg = {row["system"]: row["ndcg@10"] for row in table["rows"]}
    assert set(ndcg) == {"naive", "cfc", "oracle"}
    assert ndcg["oracle"] > 0.4
    ranked = pl.read_parquet(files[0])
    assert ranked.columns[:2] == ["query_id", "item_id"]
    best = ranked.filter(pl.col("rank") == 1).height
    assert best == ranked["query_id"].n_unique()


def test_diagnose_counts_the_clicks_that_count(folder: Path, tmp_path: Path) -> None:
    frame = pl.read_parquet(folder / "log.parquet").with_columns(weight=(pl.col("position") < 4).cast(pl.Float64))
    frame.write_parquet(tmp_path / "log.parquet")
    clicks = int(frame.filter(pl.col("weight") > 0)["click"].sum())
    assert 0 < clicks < frame["click"].sum()
    found = unskew("diagnose", tmp_path / "log.parquet", "--no-referee")
    assert found["amount_of_data"]["text"].startswith(f"The log has {clicks:,} clicks")


@pytest.mark.parametrize(("method", "said"), [("naive", True), ("oracle", False)])
def test_few_clicks_are_said_of_methods_that_learn_from_them(
    folder: Path, tmp_path: Path, method: str, said: bool
) -> None:
    words = [
        "fit",
        folder / "log.parquet",
        "--out",
        tmp_path / "m",
        "--method",
        method,
        "--preset",
        "smoke",
        "--jobs",
        1,
    ]
    told = CliRunner().invoke(app, [str(word) for word in words])
    assert told.exit_code == 0, told.output
    assert ("too little for any method" in " ".join(told.output.split())) == said


def test_the_same_seed_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    def model(out: Path) -> bytes:
        unskew("fit", folder / "log.parquet", "--out", out, "--method", "cfc-s", "--preset", "smoke", "--jobs", 1)
        return (out / "model.txt").read_bytes()

    assert model(tmp_path / "a") == model(tmp_path / "b")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("log.parquet", "log.parquet"),
        ("picture.bmp", "must end in"),
        ("log.parquet/a.png", "a file of that name"),
    ],
)
def test_a_picture_that_cannot_be_written_is_refused_before_the_work(folder: Path, name: str, said: str) -> None:
    before = (folder / "log.parquet").read_bytes()
    refused = unskew("diagnose", folder / "log.parquet", "--figure", folder / name, code=2)["stderr"]
    assert said in " ".join(refused.split())
    assert (folder / "log.parquet").read_bytes() == before


def test_without_validation_a_fifth_is_held_out(folder: Path, tmp_path: Path) -> None:
    fitted = unskew(
        "fit", folder / "log.parquet", "--out", tmp_path / "m", "--method", "naive", "--preset", "smoke", "--jobs", 1
    )
    assert fitted["chosen_on"].startswith("20 % of the log's queries")


def test_default_is_resolved_to_a_real_name(folder: Path, tmp_path: Path) -> None:
    fitted = unskew("fit", folder / "log.parquet", "--out", tmp_path / "m", "--preset", "smoke", "--jobs", 1)
    assert fitted["method"] not in ("default", "")
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert fitted["method"] in json.dumps(manifest)


def test_an_examination_that_is_known(folder: Path, tmp_path: Path) -> None:
    known = pl.DataFrame({"position": np.arange(200, 0, -1), "examination": 1 / np.arange(200, 0, -1)})
    for ending, write in (("csv", known.write_csv), ("parquet", known.write_parquet)):
        write(tmp_path / f"known.{ending}")
        fitted = unskew(
            "fit", folder / "log.parquet", "--out", tmp_path / ending, "--preset", "smoke", "--jobs", 1,
            "--examination", tmp_path / f"known.{ending}",
        )  # fmt: skip
        assert fitted["position_curve"]["value"][:4] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])
        assert fitted["referee"]["severity"] is None
        assert "The examination that was given" in fitted["referee"]["text"]
    assert load(tmp_path / "csv").manifest["settings"]["examination"][1] == 0.5


def test_diagnose_takes_a_known_examination(folder: Path, tmp_path: Path) -> None:
    words = ["diagnose", folder / "log.parquet", "--examination", tmp_path / "known.csv"]
    pl.DataFrame({"position": np.arange(1, 201), "examination": 1 / np.arange(1, 201)}).write_csv(words[-1])
    assert "The examination that was given" in unskew(*words)["referee"]["text"]
    pl.DataFrame({"position": [1, 2], "examination": [1.0, 0.5]}).write_csv(words[-1])
    assert "examination must have a value for every position" in " ".join(unskew(*words, code=2)["stderr"].split())


def test_an_examination_counts_positions_as_the_log_does(folder: Path, tmp_path: Path) -> None:
    log = pl.read_parquet(folder / "log.parquet").with_columns(pl.col("position") - 1)
    log.write_parquet(tmp_path / "log.parquet")
    known = pl.DataFrame({"position": np.arange(200), "examination": 1 / np.arange(1, 201)})
    known.write_csv(tmp_path / "known.csv")
    words = ["fit", tmp_path / "log.parquet", "--preset", "smoke", "--jobs", 1, "--examination", tmp_path / "known.csv"]
    fitted = unskew(*words, "--position-base", 0, "--out", tmp_path / "model")
    assert fitted["position_curve"]["value"][:2] == pytest.approx([1, 1 / 2])
    assert "from 1 on, but has 0 where 1 should be" in " ".join(
        unskew("fit", folder / "log.parquet", *words[2:], "--out", tmp_path / "other", code=2)["stderr"].split()
    )


def page_answer(model: Path) -> str:
    return unskew("report", model, "--out", model.parent / "page.html")["answer"][0]


@pytest.mark.parametrize("command", ["fit", "diagnose"])
@pytest.mark.parametrize(("base", "said"), [(0, "it ends at 1"), (1, "it ends at 2")])
def test_an_examination_that_ends_too_early_is_told_in_the_logs_own_positions(
    folder: Path, tmp_path: Path, command: str, base: int, said: str
) -> None:
    log = pl.read_parquet(folder / "log.parquet").with_columns(pl.col("position") - 1 + base)
    log.write_parquet(tmp_path / "log.parquet")
    words = [command, tmp_path / "log.parquet", "--position-base", base, "--examination", tmp_path / "known.csv"]
    words += ["--out", tmp_path / "m"] if command == "fit" else []
    known = pl.DataFrame({"position": [base, base + 1], "examination": [1.0, 0.5]})
    known.write_csv(tmp_path / "known.csv")
    short = " ".join(unskew(*words, code=2)["stderr"].split())
    assert f"every position, {base} to {log['position'].max()} in this log, but {said}" in short
    known.with_columns(examination=pl.Series([1.0, 0.0])).write_csv(tmp_path / "known.csv")
    assert f"it is 0 at position {base + 1}." in " ".join(unskew(*words, code=2)["stderr"].split())


def test_control_terms_can_be_asked_for(folder: Path, tmp_path: Path) -> None:
    words = ["fit", folder / "log.parquet", "--method", "full-cfc", "--preset", "smoke", "--jobs", 1]
    fitted = unskew(*words, "--terms", "shift", "--out", tmp_path / "a")
    assert "terms_gain" in fitted["learnt"]
    asked = unskew(*words, "--terms", "auto", "--out", tmp_path / "auto")
    assert "The control terms" in asked["referee"]["text"]
    assert asked["referee"]["text"] in json.dumps(load(tmp_path / "auto").manifest, ensure_ascii=False)
    assert "control terms together" in page_answer(tmp_path / "a")
    none = unskew(*words, "--terms", "none", "--out", tmp_path / "none")
    assert none["candidates"][0]["setting"]["terms"] == "none"
    assert load(tmp_path / "none").manifest["settings"]["terms"] is None
    assert "control terms" not in page_answer(tmp_path / "none")
    refused = unskew(*words, "--terms", "shifty", "--out", tmp_path / "b", code=2)["stderr"]
    assert "shift" in refused
    assert "None" not in refused


def test_terms_on_the_command_line_are_those_of_the_library() -> None:
    assert set(get_args(TermsOption)) == {"none", "auto", *get_args(TermsName)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("position,seen\n1,1\n", "no column 'examination'"),
        ("position,examination\n1,1\n3,0.5\n", "has 3 where 2 should be"),
        ("position,examination\n", "is empty"),
        ("position,examination\n1,often\n", "must hold numbers"),
        ("position,examination\n1,1\n2,0.5\n", "a value for every position"),
        ("position,examination\n1,1\n2,\n" + "".join(f"{k},0.1\n" for k in range(3, 200)), "nan at position 2"),
    ],
)
def test_an_examination_that_is_none(folder: Path, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "known.csv").write_text(text)
    words = ["fit", folder / "log.parquet", "--out", tmp_path / "m", "--examination", tmp_path / "known.csv"]
    assert said in " ".join(unskew(*words, code=2)["stderr"].split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "magic"], "method must be one of 'default'"),
        (["--method", "paird", "--ranker", "dnn"], "works with 'lambdamart'"),
        (["--method", "cfc", "--transformation", "probit"], "must be one of 'minmax'"),
        (["--method", "naive", "--stage-one", "svm"], "has no setting 'stage_one'"),
        (["--valid", "nowhere.parquet"], "nowhere.parquet"),
    ],
)
def test_wrong_use_is_said_plainly(folder: Path, tmp_path: Path, words: list[str], said: str) -> None:
    result = unskew("fit", folder / "log.parquet", "--out", tmp_path / "m", *words, code=2)
    assert said in " ".join(result["stderr"].split())
    assert "Traceback" not in result["stderr"]
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("method", ["default", "full-cfc"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tune-on", "debiased"], "methods that debias clicks, such as cfc"),
        (["--tune-on", "grades", "--relevance", "none"], "needs human grades"),
        (["--tune-on", "clicks", "--judged", "synthetic:20"], "needs a log"),
    ],
)
def test_what_to_tune_on_is_looked_at_first(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, words: list[str], said: str
) -> None:
    monkeypatch.setattr("unskew.fitting.fit_method", lambda *args, **settings: pytest.fail("trained first"))
    log = folder / "log.parquet"
    refused = unskew("fit", log, "--out", tmp_path / "m", "--method", method, *words, code=2)["stderr"]
    assert said in " ".join(refused.split())


def test_a_place_for_the_model_is_looked_at_first(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unskew.fitting.fit_method", lambda *args, **settings: pytest.fail("trained first"))
    (tmp_path / "file").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_text("precious")
    for place in ("file", "other"):
        said = unskew("fit", folder / "log.parquet", "--out", tmp_path / place, code=2)["stderr"]
        assert "Name another folder" in " ".join(said.split())


def test_a_log_without_clicks_is_refused(folder: Path, tmp_path: Path) -> None:
    pl.read_parquet(folder / "log.parquet").with_columns(click=pl.lit(0)).write_parquet(tmp_path / "none.parquet")
    said = unskew("fit", tmp_path / "none.parquet", "--out", tmp_path / "m", code=2)["stderr"]
    assert "click" in said


def test_ranking_needs_the_models_features(folder: Path, tmp_path: Path) -> None:
    unskew(
        "fit", folder / "log.parquet", "--out", tmp_path / "m", "--method", "naive", "--preset", "smoke", "--jobs", 1
    )
    frame = pl.read_parquet(folder / "log.test.parquet")
    names = load(tmp_path / "m").feature_names
    frame.drop(names[3]).write_parquet(tmp_path / "less.parquet")
    said = unskew("rank", tmp_path / "m", tmp_path / "less.parquet", "--out", tmp_path / "s.parquet", code=2)["stderr"]
    assert f"'{names[3]}'" in said
    shuffled = frame.select(*frame.columns[:2], *reversed(frame.columns[2:]))
    shuffled.write_parquet(tmp_path / "shuffled.parquet")
    unskew("rank", tmp_path / "m", tmp_path / "shuffled.parquet", "--out", tmp_path / "a.parquet")
    unskew("rank", tmp_path / "m", folder / "log.test.parquet", "--out", tmp_path / "b.parquet")
    a, b = (pl.read_parquet(tmp_path / f"{name}.parquet")["score"].to_numpy() for name in "ab")
    np.testing.assert_array_equal(a, b)


def test_the_demo_runs_the_whole_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import unskew.demo as demo

    monkeypatch.setattr(demo, "SPLIT", (60, 20, 30))
    monkeypatch.setattr(demo, "SETTINGS", {**demo.SETTINGS, "passes": 3, "production": 0.05})
    said = unskew("demo", "--out", tmp_path / "demo", "--jobs", 1)
    assert {row["system"] for row in said["evaluation"]["rows"]} >= {"naive", "cfc", "oracle"}
    assert (tmp_path / "demo" / "model" / "manifest.json").exists()
    assert (tmp_path / "demo" / "log.parquet").exists()
