"""The page of `make journey`: commands without machine paths, and what they printed, unchanged."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def journey() -> ModuleType:
    spec = importlib.util.spec_from_file_location("journey_script", ROOT / "benchmarks" / "journey.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def judged_file(folder: Path) -> Path:
    """Forty queries whose first feature is the grade and a little more."""
    lines = [
        f"{(q + i) % 3} qid:{q} 1:{(q + i) % 3 + i / 50} 2:{(7 * q + i) % 5}" for q in range(1, 41) for i in range(8)
    ]
    path = folder / "judged.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_the_way_is_written_down(journey: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "journey.md"
    data = str(judged_file(tmp_path))
    words = [data, "--max-grade", "2", "--preset", "smoke", "--methods", "naive", "--out", str(out)]
    assert journey.main(words) == 0
    page = out.read_text()
    typed = re.findall(r"^    \$ (.*)$", page, re.MULTILINE)
    assert typed[0] == "unskew simulate judged.txt --max-grade 2 --valid 0.2 --test 0.2 --out log.parquet"
    assert [line.split()[1] for line in typed] == ["simulate", "fit", "rank", "evaluate"]
    assert "NDCG@10" in page
    assert "naive with lambdamart" in page
    for path in (str(tmp_path), str(ROOT), str(Path.home()), "\x1b"):
        assert path not in page
    assert list(tmp_path.glob(".journey*")) == []


def test_commands_are_the_documented_ones(journey: ModuleType) -> None:
    typed = list(journey.commands("data/mq2008.txt.xz", max_grade=2, methods=journey.METHODS, preset="default"))
    assert len(typed) == 1 + 2 * 5 + 1
    assert {line[line.index("--method") + 1] for line in typed if line[1] == "fit"} == set(journey.METHODS)
    readme = (ROOT / "README.md").read_text()
    assert " ".join(typed[0]) in readme
    assert "unskew fit log.parquet --valid log.valid.parquet --method cfc --out cfc" in [" ".join(w) for w in typed]
    made_up = next(iter(journey.commands("synthetic:60", max_grade=2, methods=["naive"], preset="smoke")))
    assert "--max-grade" not in made_up


def test_a_command_that_fails_leaves_the_old_page(
    journey: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "journey.md"
    out.write_text("old")
    assert journey.main([]) == 1
    (tmp_path / "bad.txt").write_text("no judged data\n")
    assert journey.main([str(tmp_path / "bad.txt"), "--out", str(out)]) == 1
    assert "'unskew simulate bad.txt" in capsys.readouterr().err
    assert out.read_text() == "old"
