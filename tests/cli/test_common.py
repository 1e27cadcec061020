"""What every command shares: exit codes, and errors without tracebacks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
import typer
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from unskew.cli import app, commands  # noqa: F401  (importing registers)
from unskew.cli.common import Voice, command
from unskew.errors import LogError
from unskew.registry import methods


def failing(error: BaseException) -> typer.Typer:
    small = typer.Typer()

    @small.command()
    @command
    def fail(debug: bool = False) -> None:
        raise error

    return small


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (PermissionError(13, "Permission denied", "log.parquet"), 2, "Error: log.parquet: Permission denied."),
        (OSError(5, "Input/output error"), 2, "Error: Input/output error."),
        (MemoryError(), 2, "Error: Not enough memory"),
        (KeyboardInterrupt(), 130, "Stopped."),
        (RuntimeError("odd"), 2, "Unexpected RuntimeError: odd"),
    ],
)
def test_errors_without_a_traceback(error: BaseException, code: int, said: str) -> None:
    result = CliRunner().invoke(failing(error), [])
    assert result.exit_code == code
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_control_characters_do_not_reach_the_terminal() -> None:
    said = CliRunner().invoke(failing(LogError("query '\x1b[31mred\x07' is odd")), []).stderr
    assert "query '\\x1b[31mred\\x07' is odd" in said


def test_brackets_are_said_as_they_are(capsys) -> None:
    """Nothing is read as markup, in a line, in a table or in a remark: people's files and columns have such names."""
    odd = "a[/x] m[red]y \\[z]"
    table = Table(odd, title=odd, caption=odd, width=60)
    table.add_row(odd)
    voice = Voice()
    for said in (odd, table, Text(odd)):
        voice.say(said)
    voice.note(odd)
    shown = capsys.readouterr()
    assert (shown.out.count(odd), shown.err.count(odd)) == (6, 1)
    voice.say("\x1b[31mred")
    assert capsys.readouterr().out == "\\x1b[31mred\n"


@pytest.mark.parametrize("name", ["m[/x]", "m[red]x", "g[1]/p[2]"])
def test_paths_with_brackets(tidy_frame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    tidy_frame(queries=30).write_parquet("log.parquet")
    for out, *words in [
        (name, "fit", "log.parquet", "--method", "naive", "--preset", "smoke", "--jobs", "1"),
        (f"{name}.csv", "rank", name, "log.parquet"),
        (f"{name}.html", "report", name),
    ]:
        result = CliRunner().invoke(app, [*words, "--out", out])
        assert result.exit_code == 0, result.output
        assert out in result.stdout
        assert Path(out).exists()
    figure = f"{name}.png"
    result = CliRunner().invoke(app, ["diagnose", "log.parquet", "--no-referee", "--figure", figure])
    assert result.exit_code == 0, result.output
    assert figure in result.stdout


def test_every_family_of_methods_has_one_heading() -> None:
    shown = CliRunner().invoke(app, ["methods"]).stdout.splitlines()
    families = dict.fromkeys(info.family for info in methods())
    headings = [line.strip() for line in shown if line.strip() in families]
    assert headings == list(families)
    assert all(any(line.startswith(info.name) for line in shown) for info in methods())
    assert "ceiling" not in " ".join(shown)


def test_errors_speak_of_options(tmp_path: Path) -> None:
    (tmp_path / "judged.csv").write_text("query,item_id,relevance,a\n1,1,0,0.5\n")
    result = CliRunner().invoke(app, ["simulate", str(tmp_path / "judged.csv"), "--out", str(tmp_path / "log.parquet")])
    assert result.exit_code == 2
    assert "--query" in result.stderr


def test_judged_tables_with_other_columns(tmp_path: Path) -> None:
    rows = [f"{query},{item},{(query + item) % 3},{(query * item) % 5}" for query in range(30) for item in range(6)]
    (tmp_path / "judged.csv").write_text("\n".join(["q,doc,stars,a", *rows]))
    (tmp_path / "scores.txt").write_text("\n".join(str(i % 7) for i in range(len(rows))))
    columns = ["--query", "q", "--item", "doc", "--relevance", "stars"]
    for words in (["simulate", "--out", str(tmp_path / "log.parquet")], ["evaluate", str(tmp_path / "scores.txt")]):
        result = CliRunner().invoke(app, [words[0], str(tmp_path / "judged.csv"), *words[1:], *columns])
        assert result.exit_code == 0, result.stderr
    assert (tmp_path / "log.parquet").exists()


def test_the_log_and_its_features_need_two_files(tmp_path: Path) -> None:
    same = str(tmp_path / "log.parquet")
    result = CliRunner().invoke(app, ["simulate", "synthetic:20", "--out", same, "--features", same])
    assert result.exit_code == 2
    assert "cannot both go" in result.stderr
    assert not list(tmp_path.iterdir())


def test_debug_shows_the_traceback() -> None:
    assert "Traceback" in CliRunner().invoke(failing(RuntimeError("odd")), ["--debug"]).stderr


@pytest.mark.parametrize("name", ["fit", "diagnose", "simulate"])
def test_a_negative_seed(name: str, tmp_path: Path) -> None:
    out = [] if name == "diagnose" else ["--out", str(tmp_path / "out.parquet")]
    result = CliRunner().invoke(app, [name, "synthetic:5", *out, "--seed", "-1"])
    assert result.exit_code == 2
    assert "--seed" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_unwinds(number: signal.Signals, tmp_path: Path) -> None:
    """Stopped by a person or by a scheduler: the temporary file goes, and no traceback is shown."""
    script = (
        "import sys, time, types, unskew.cli\n"
        "from unskew._files import atomic_path\n"
        "def work():\n"
        f"    with atomic_path({str(tmp_path / 'a.txt')!r}):\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(60)\n"
        "sys.modules['unskew.cli.commands'] = types.ModuleType('commands')\n"
        "unskew.cli.app = work\n"
        "unskew.cli.main()\n"
    )
    started = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdout is not None
    assert started.stdout.readline() == b"ready\n"
    time.sleep(0.05)
    started.send_signal(number)
    _, said = started.communicate(timeout=30)
    assert started.returncode == 128 + number
    assert b"Traceback" not in said
    assert not list(tmp_path.iterdir())


def test_the_module_is_the_command() -> None:
    said = subprocess.run([sys.executable, "-m", "unskew", "methods", "--json"], capture_output=True, check=True)
    assert b'"naive"' in said.stdout
    assert subprocess.run([sys.executable, "-m", "unskew", "colour"], capture_output=True).returncode == 2


def command_line(*words: str, encoding: str = "utf-8") -> list[str]:
    """The command in a process of its own, which may be slow to start on a busy machine: few tests need it."""
    return ["env", f"PYTHONIOENCODING={encoding}", sys.executable, "-m", "unskew", *words]


@pytest.mark.skipif(os.name == "nt", reason="pipes of Unix")
@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.parametrize("sound", [True, False])
def test_a_reader_that_went_away_changes_nothing(tidy_frame, tmp_path: Path, more: list[str], sound: bool) -> None:
    """`unskew validate log | head -1` must not look like a failed check, nor hide one."""
    tidy_frame(seed=2).with_columns(pl.col("click") * (1 if sound else 7)).write_parquet(tmp_path / "log.parquet")
    reading, writing = os.pipe()
    os.close(reading)
    words = command_line("validate", str(tmp_path / "log.parquet"), *more)
    done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert done.stderr == b""
    assert done.returncode == (0 if sound else 1)


@pytest.mark.skipif(os.name == "nt", reason="env of Unix")
def test_a_terminal_that_lacks_a_sign() -> None:
    shown = subprocess.run(command_line("methods", encoding="ascii"), capture_output=True, check=True)
    assert b"naive" in shown.stdout
    document = subprocess.run(command_line("methods", "--json", encoding="ascii"), capture_output=True, check=True)
    plain = subprocess.run(command_line("methods", "--json"), capture_output=True, check=True)
    assert json.loads(document.stdout) == json.loads(plain.stdout)
    assert document.stdout != plain.stdout
