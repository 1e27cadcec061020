from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner, Result

from unskew.cli import app, commands, common  # noqa: F401  (importing registers)
from unskew.cli.columns import LogOptions, with_log_options
from unskew.cli.common import command
from unskew.errors import LogError


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["validate", *map(str, arguments)])


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences are looked for whole; the console is made once, so its environment would come too late."""
    monkeypatch.setattr(common.out, "_width", 1_000)


@pytest.fixture
def log(tmp_path, tidy_frame) -> Path:
    path = tmp_path / "log.parquet"
    tidy_frame(seed=2).write_parquet(path)
    return path


def test_a_sound_log(log):
    result = run(log)
    assert result.exit_code == 0
    assert "This log can be used." in result.stdout
    assert "60 impressions" in result.stdout
    assert "FAIL" not in result.stdout


def test_json_is_one_document(log):
    document = json.loads(run(log, "--json").stdout)
    assert document["status"] == "PASS"
    assert document["summary"]["queries"] == 4
    assert {"name", "status", "count", "message", "hint", "rows"} == document["checks"][0].keys()


def test_bad_logs_exit_with_1(bad_log, tmp_path):
    path = tmp_path / "log.parquet"
    bad_log.frame.write_parquet(path)
    result = run(path, "--json")
    assert result.exit_code == 1
    failed = [check for check in json.loads(result.stdout)["checks"] if check["status"] == "FAIL"]
    assert failed
    assert all(check["message"] for check in failed)
    assert "Traceback" not in result.output


def test_hints_name_the_option_of_the_command_and_the_option_works(tmp_path, tidy_frame):
    path = tmp_path / "log.csv"
    tidy_frame().with_columns(pl.col("position") - 1).rename({"click": "clicked"}).write_csv(path)
    result = run(path)
    assert result.exit_code == 1
    assert "--click clicked" in result.stdout
    result = run(path, "--click", "clicked")
    assert "--position-base 0" in result.stdout
    result = run(path, "--click", "clicked", "--position-base", "0")
    assert result.exit_code == 0


def test_every_column_option(tmp_path, tidy_frame):
    frame = tidy_frame().rename({"query_id": "q", "session_id": "s", "item_id": "d", "position": "p", "click": "c"})
    frame = frame.with_columns(pl.col("c") * 3, title=pl.lit("x"), relevance=pl.lit(9), g=pl.lit(4), w=pl.lit(1))
    frame = frame.with_columns(age=pl.when(pl.col("d") == "d1").then(None).otherwise("age"), score=pl.lit(0.5))
    frame.write_parquet(tmp_path / "log.parquet")
    options = "--query q --session s --item d --position p --click c --counts --relevance g --max-grade 4 --weight w"
    options += " --logging-score score --feature-columns bm25,age --missing keep"
    result = run(tmp_path / "log.parquet", "--json", *options.split())
    assert result.exit_code == 0
    assert json.loads(result.stdout)["summary"]["features"] == 2
    assert run(tmp_path / "log.parquet", *options.replace("--max-grade 4", "--max-grade 3").split()).exit_code == 1


def test_features_in_a_second_file(tmp_path, tidy_frame):
    frame = tidy_frame()
    frame.drop("bm25", "age").write_csv(tmp_path / "log.csv")
    features = frame.select("query_id", "item_id", "bm25", "age").unique(maintain_order=True)
    features.write_parquet(tmp_path / "features.parquet")
    assert run(tmp_path / "log.csv").exit_code == 1
    assert run(tmp_path / "log.csv", "--features", tmp_path / "features.parquet").exit_code == 0
    features.head(9).write_parquet(tmp_path / "fewer.parquet")
    result = run(tmp_path / "log.csv", "--features", tmp_path / "fewer.parquet")
    assert result.exit_code == 1
    assert "11 of 20 have none" in result.stdout


def test_files_that_cannot_be_read_exit_with_2(tmp_path, log):
    whole = log.read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    for name in ("cut.parquet", "empty.csv", "binary", "nothing.parquet"):
        for more in ((), ("--json",)):
            result = run(tmp_path / name, *more)
            assert result.exit_code == 2, name
            assert name in result.stderr
            assert result.stdout == ""
            assert "Traceback" not in result.stderr


def test_wrong_use_exits_with_2(log):
    assert run(log, "--position-base", "7").exit_code == 2
    assert run(log, "--missing", "drop").exit_code == 2
    assert run(log, "--colour").exit_code == 2


def test_quiet_says_only_what_is_wrong(log, tmp_path, tidy_frame):
    result = run(log, "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    tidy_frame().with_columns(click=pl.lit(7)).write_parquet(tmp_path / "bad.parquet")
    result = run(tmp_path / "bad.parquet", "--quiet")
    assert result.exit_code == 1
    assert "FAIL click: 0 or 1" in result.stderr
    assert result.stdout == ""


def test_help_shows_an_example():
    result = run("--help")
    assert "unskew validate log.parquet" in result.stdout
    assert "--position-base" in result.stdout


def test_other_commands_read_logs_with_the_same_options(tmp_path, tidy_frame):
    seen = []
    other = typer.Typer()

    @other.command()
    @command
    @with_log_options
    def count(log: Path, columns: LogOptions, debug: bool = False) -> None:
        seen.append(columns.read(log).n_impressions)

    tidy_frame().rename({"click": "clicked"}).write_parquet(tmp_path / "log.parquet")
    runner = CliRunner()
    assert runner.invoke(other, [str(tmp_path / "log.parquet"), "--click", "clicked"]).exit_code == 0
    assert seen == [60]
    failed = runner.invoke(other, [str(tmp_path / "log.parquet")])
    assert failed.exit_code == 2
    assert "--click clicked" in failed.stderr
    with pytest.raises(LogError, match="--position-base 0"):
        LogOptions(click="clicked").read(zero_based(tmp_path, tidy_frame()))


def zero_based(folder: Path, frame: pl.DataFrame) -> Path:
    path = folder / "zero.parquet"
    frame.rename({"click": "clicked"}).with_columns(pl.col("position") - 1).write_parquet(path)
    return path
