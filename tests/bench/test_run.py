"""Running: every experiment once, resuming, failures, dead workers, full disks, locks."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import signal
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from unskew.bench import run as running
from unskew.bench import store as storing
from unskew.bench import work
from unskew.bench.collection import Source, read_collection
from unskew.bench.editions import EDITION, last_moved
from unskew.bench.experiments import EXPERIMENTS
from unskew.bench.formats import document
from unskew.bench.lock import LOCK, locked
from unskew.bench.outcomes import open_run
from unskew.bench.plan import Request, make_plan
from unskew.bench.pool import Pool
from unskew.bench.results_chapter import chapter_of
from unskew.bench.run import Progress, RunSummary, default_source, run
from unskew.bench.schedule import Clock, Schedule, cost
from unskew.bench.store import Store
from unskew.bench.tables import rows
from unskew.bench.units import Unit
from unskew.data.files import write_judged
from unskew.errors import DataError, FileFormatError, MissingExtraError, OutputError, SettingError
from unskew.simulation.synthetic import synthetic_collection

TINY = Source("synthetic:30")


def tiny(**given: Any) -> Request:
    return Request("rq7", "smoke", **{"methods": ("naive", "position"), "rankers": ("lambdamart",), **given})


def go(folder: Path, *requests: Request, source: Source = TINY, **given: Any) -> RunSummary:
    return run(requests or [tiny()], source, folder, **{"jobs": 0, "threads": 1, **given})


# Every experiment


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("smoke") / "run"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_smoke_run(name: str, shared_folder: Path) -> None:
    request = Request(name, "smoke")
    summary = run([request], default_source(request), shared_folder, jobs=0, threads=1)
    assert [f"{failure.said}: {failure.error}" for failure in summary.failures] == []
    outcome = next(found for found in open_run(shared_folder) if found.plan.experiment == name)
    assert outcome.missing == 0
    table = rows(outcome)
    assert {row["method"] for row in table} == {entry.method for entry in outcome.plan.entries}
    assert all(row["mean"] == row["mean"] for row in table)
    assert name in document([outcome], "markdown")


def test_a_record_says_how_it_came_about(tmp_path: Path) -> None:
    go(tmp_path, tiny(methods=("position", "cfc")))
    outcome = open_run(tmp_path)[0]
    records = outcome.records("swaps")
    found = records["lambdamart", "position"][0]
    assert found["unit"]["cell"]["landmarks"] == [1, 3, 5, 10]
    assert found["versions"]["lightgbm"]
    assert found["curve"]["value"][0] == 1.0
    assert found["planted_curve"][:2] == [1.0, 0.5]
    assert found["seconds"]["fit"] > 0
    assert found["log"]["clicks"] > 0
    assert found["chosen"]["stage"] in (10, 20)
    cfc = records["lambdamart", "cfc"][0]
    assert cfc["seconds"]["stage_one"] > 0
    assert len(cfc["candidates"]) == 4


def test_a_method_can_be_told_the_planted_examination(tmp_path: Path) -> None:
    go(tmp_path, tiny(methods=("full-cfc:examination=planted", "full-cfc")))
    records = open_run(tmp_path)[0].records("swaps")
    for method in ("full-cfc:examination=planted", "full-cfc"):
        record = records["lambdamart", method][0]
        learnt, planted = record["curve"]["value"][:20], record["planted_curve"][:20]
        assert (learnt == pytest.approx(planted)) == (method != "full-cfc")


def test_averaging_changes_the_model_and_nothing_else(tmp_path: Path) -> None:
    go(tmp_path, tiny(methods=("naive",), average=2))
    outcome = open_run(tmp_path)[0]
    assert outcome.missing == 0
    assert "means of 2 models" in " ".join(outcome.plan.notes)


@pytest.mark.parametrize(
    ("method", "ranker"), [("position", "lambdamart"), ("paird", "lambdamart"), ("naive", "xgboost")]
)
def test_averaged_models_choose_their_number_of_trees_once(method: str, ranker: str) -> None:
    collection = read_collection(TINY)
    request = tiny(methods=(method,), rankers=(ranker,), average=3)
    unit = make_plan(request, collection, TINY).entries[0].unit
    material = work.Bench(collection).material(unit)
    fits = work._fit_all(material, unit, 1)
    assert len(fits) == 3
    chosen = fits[0].chosen["stage"]
    assert [fit.model.outcome_.state.info["trees"] for fit in fits] == [chosen] * 3
    assert len({fit.model.predict(material.test).tobytes() for fit in fits}) == 3


# Resuming


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    first = go(tmp_path)
    assert (first.made, first.kept) == (4, 0)
    stamps = {path: path.stat().st_ino for path in (tmp_path / "units").iterdir()}
    second = go(tmp_path)
    assert (second.made, second.kept) == (0, 4)
    assert stamps == {path: path.stat().st_ino for path in (tmp_path / "units").iterdir()}


def test_more_seeds_build_on_what_is_there(tmp_path: Path) -> None:
    go(tmp_path)
    more = go(tmp_path, tiny(seeds=2))
    assert (more.made, more.kept) == (4, 4)


def test_other_data_is_another_experiment(tmp_path: Path) -> None:
    go(tmp_path)
    other = go(tmp_path, source=Source("synthetic:31"))
    assert other.kept == 0
    assert [outcome.plan.data for outcome in open_run(tmp_path)] == ["synthetic:30", "synthetic:31"]


def test_a_torn_unit_is_done_again(tmp_path: Path) -> None:
    go(tmp_path)
    next((tmp_path / "units").glob("naive*.json")).unlink()
    assert go(tmp_path).made == 1


def test_units_of_an_earlier_edition_are_shown_but_done_again(tmp_path: Path) -> None:
    go(tmp_path)
    path = next((tmp_path / "units").glob("naive*.json"))
    record = json.loads(path.read_text())
    assert record.pop("edition") == EDITION
    path.write_text(json.dumps(record))
    (old,) = open_run(tmp_path)
    assert old.missing == 0
    assert chapter_of(old).edition == "edition 1"
    again = go(tmp_path)
    assert (again.made, again.kept) == (1, 3)
    assert chapter_of(open_run(tmp_path)[0]).edition == ""


def test_an_edition_concerns_the_units_whose_numbers_it_moved() -> None:
    swaps, fixed = (plan_units("truth", setting) for setting in ("swaps", "base"))
    assert {unit.method for unit in swaps if last_moved(unit, {}) == 3} == {"full-cfc"}
    assert {unit.method for unit in swaps if last_moved(unit, {}) == 5} == {"default"}
    assert {last_moved(unit, {}) for unit in fixed} == {2}
    at_the_end = {"learnt": {"trees": {"alone": 295, "on the additive part": 120}}}
    assert {unit.method for unit in fixed if last_moved(unit, at_the_end) == 4} == {"default", "full-cfc"}
    refuted = {"learnt": {"referee": {"interventions": {"refuted": True}, "specifications": []}}}
    found = {"learnt": {"referee": {"specifications": [{"name": "position + Φ(hazard)", "found": True}]}}}
    assert all(last_moved(unit, record) == 6 for unit in fixed for record in (refuted, found))
    shocked = plan_units("hidden", "shock")
    assert {unit.method for unit in shocked if last_moved(unit, {}) == 6} == {"default", "full-cfc"}


def plan_units(name: str, setting: str) -> list[Unit]:
    source = Source("synthetic:30")
    plan = make_plan(Request(name), read_collection(source, real_log=False), source)
    return [entry.unit for entry in plan.entries if entry.setting == setting]


@pytest.mark.parametrize("damage", [("parquet", b"PAR1"), ("parquet", None), ("json", b'{"unit": {'), ("json", b"[]")])
def test_a_damaged_unit_is_named_counted_as_missing_and_done_again(tmp_path: Path, damage: tuple[str, Any]) -> None:
    go(tmp_path)
    whole = document(open_run(tmp_path), "markdown")
    suffix, content = damage
    path = next((tmp_path / "units").glob(f"naive*.{suffix}"))
    # None: its end is missing.
    path.write_bytes(path.read_bytes()[:-20] if content is None else content)
    outcome = open_run(tmp_path)[0]
    assert outcome.missing == 1
    assert str(path) in outcome.failures[0].error
    assert document([outcome], "markdown") != whole  # the other units are shown all the same
    assert (again := go(tmp_path)).made == 1
    assert again.failures == ()
    assert document(open_run(tmp_path), "markdown") == whole


def test_what_a_kill_left_half_written_is_swept_away(tmp_path: Path) -> None:
    go(tmp_path)
    whole = document(open_run(tmp_path), "markdown")
    plan = next((tmp_path / "plans").iterdir())
    (plan.parent / f".{plan.name}.abcd1234.json").write_bytes(plan.read_bytes())
    (plan.parent / f".{plan.name}.efgh5678.json").write_bytes(b"")
    assert document(open_run(tmp_path), "markdown") == whole
    go(tmp_path)
    assert [path.name for path in (tmp_path / "plans").iterdir()] == [plan.name]


def test_other_data_of_the_same_name_is_refused(tmp_path: Path) -> None:
    for name, queries in (("a", 30), ("b", 31)):
        (tmp_path / name).mkdir()
        data = synthetic_collection(queries)
        write_judged(data, tmp_path / name / "data.parquet")
    sources = [Source(str(tmp_path / name / "data.parquet")) for name in ("a", "b")]
    go(tmp_path / "run", source=sources[0])
    with pytest.raises(OutputError, match="on other data that is also called 'data'"):
        go(tmp_path / "run", source=sources[1])
    assert go(tmp_path / "run", source=sources[0]).kept == 4


def _run_slowly(folder: str) -> None:
    go(Path(folder), *KILLED)


KILLED = [
    Request("rq2", "smoke", methods=("naive", "position"), rankers=("lambdamart",), folds=2),
    Request("rq7", "smoke", methods=("naive", "position"), rankers=("lambdamart",), folds=2),
]


def test_killed_at_ten_random_moments(tmp_path: Path) -> None:
    """SIGKILL and resume: no unit lost, none done twice, the same tables."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["unskew.bench.run", "unskew.registry", "unskew.baselines.lgb_position", __name__])
    chance = random.Random(4)
    folder = tmp_path / "killed"
    kept: dict[str, int] = {}
    killed = 0
    for _ in range(60):
        process = context.Process(target=_run_slowly, args=(str(folder),))
        process.start()
        process.join(chance.uniform(0.05, 1.0) if killed < 10 else None)
        if process.exitcode is None:
            os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
            killed += 1
        # A kill may leave a hidden file half-written beside the units: the next start sweeps it away.
        units = list((folder / "units").glob("[!.]*.json")) if folder.exists() else []
        now = {path.name: path.stat().st_ino for path in units}
        assert {name: now.get(name) for name in kept} == kept  # nothing lost, nothing written again
        kept = now
        if killed >= 10 and process.exitcode == 0:
            break
        if process.exitcode == 0:  # it finished too soon: take the last unit away, and go on killing
            for path in sorted(units)[:2]:
                path.unlink()
                kept.pop(path.name)
    assert killed == 10
    assert process.exitcode == 0
    undisturbed = tmp_path / "undisturbed"
    go(undisturbed, *KILLED)
    for form in ("markdown", "csv", "latex"):
        assert document(open_run(folder), form) == document(open_run(undisturbed), form)


# Failures


def test_one_failing_unit_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = work.make_method

    def broken(name: str, **settings: Any) -> Any:
        if name == "position":
            raise ZeroDivisionError("planted")
        return real(name, **settings)

    monkeypatch.setattr(work, "make_method", broken)
    summary = go(tmp_path)
    assert (summary.made, len(summary.failures)) == (2, 2)
    assert summary.failures[0].error == "ZeroDivisionError: planted"
    assert "in broken" in summary.failures[0].traceback
    assert go(tmp_path).failures[0].times == 2
    monkeypatch.setattr(work, "make_method", real)
    healed = go(tmp_path)
    assert (healed.kept, healed.made, len(healed.failures)) == (2, 2, 0)
    assert list((tmp_path / "failures").iterdir()) == []


def test_a_full_disk_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = storing._write
    written = []

    def full(target: Path, content: bytes) -> None:
        if target.parent.name == "units" and target.suffix == ".parquet":
            written.append(target)
        if len(written) > 2:
            from unskew._files import atomic_path

            with atomic_path(target):
                raise OSError(errno.ENOSPC, "No space left on device")
        real(target, content)

    monkeypatch.setattr(storing, "_write", full)
    with pytest.raises(OutputError, match=r"(?s)No space left.*2 of 4 units are done and kept"):
        go(tmp_path)
    monkeypatch.setattr(storing, "_write", real)
    assert (again := go(tmp_path)).kept == 2
    assert again.made == 2


def test_bad_wishes_are_refused_before_anything_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileFormatError, match=r"no file 'nowhere/data\.txt'"):
        go(tmp_path / "a", source=Source("nowhere/data.txt"))
    with pytest.raises(SettingError, match="'nonsense'"):
        go(tmp_path / "a", tiny(methods=("nonsense",)))
    with pytest.raises(SettingError, match="rq3 by itself"):
        go(tmp_path / "a", tiny(), Request("rq3", "smoke"))
    assert not (tmp_path / "a").exists()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.doc").write_text("mine")
    with pytest.raises(OutputError, match="other things"):
        go(tmp_path / "b")
    monkeypatch.setattr(running, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"(?s)'torch'.*unskew\[neural\].*--rankers lambdamart"):
        go(tmp_path / "c", Request("rq1", "smoke", methods=("naive",)))


def test_show_wants_a_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not the folder of a run"):
        open_run(tmp_path)


# Locks and processes


def _hold(folder: str, ready: str) -> None:
    with locked(Path(folder)):
        Path(ready).touch()
        time.sleep(60)


def test_two_runs_on_one_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    holder = context.Process(target=_hold, args=(str(tmp_path / "run"), str(tmp_path / "ready")))
    holder.start()
    deadline = time.monotonic() + 60
    while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    with pytest.raises(OutputError, match=f"process {holder.pid} has been running"):
        go(tmp_path / "run")
    os.kill(holder.pid or 0, signal.SIGKILL)
    holder.join()
    assert str(holder.pid) in (tmp_path / "run" / LOCK).read_text()  # left behind by the dead, and in nobody's way
    assert go(tmp_path / "run").made == 4


def _boss(folder: str) -> None:
    pool = Pool(TINY, real_log=False, size=1, threads=1)
    (Path(folder) / "pid").write_text(str(pool._workers[0].process.pid))
    time.sleep(60)


def test_workers_die_with_their_parent_and_are_replaced_when_they_die(tmp_path: Path) -> None:
    boss = multiprocessing.get_context("forkserver").Process(target=_boss, args=(str(tmp_path),))
    boss.start()
    units = [
        unit for unit in running.make_plan(tiny(), running.read_collection(TINY), TINY).units if unit.method == "naive"
    ]
    pool = Pool(TINY, real_log=False, size=1, threads=1)
    try:
        pool.give(0, units[0])
        os.kill(pool._workers[0].process.pid, signal.SIGKILL)
        (report,) = pool.reports(60)
        assert report.result is None
        assert "SIGKILL" in report.error
        pool.give(0, units[1])
        assert [unit for unit, _ in pool.running()] == [units[1]]
        (report,) = pool.reports(120)
        assert report.result is not None
        assert report.unit == units[1]
        assert pool.idle() == [0]
    finally:
        pool.close()
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    worker = int((tmp_path / "pid").read_text())
    os.kill(boss.pid or 0, signal.SIGKILL)
    boss.join()
    while _alive(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(worker)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# Schedule


def _units(count: int = 12) -> list[Any]:
    from unskew.bench.collection import read_collection
    from unskew.bench.plan import make_plan

    request = tiny(methods=("naive", "position", "cfc"), folds=2)
    return make_plan(request, read_collection(TINY), TINY).units[:count]


def test_units_of_a_log_stay_together_and_everything_is_handed_out_once() -> None:
    units = _units()
    schedule = Schedule(units)
    given = [(worker, schedule.next(worker)) for _ in range(len(units)) for worker in (0, 1)]
    done = [unit for _, unit in given if unit is not None]
    assert sorted(unit.key for unit in done) == sorted(unit.key for unit in units)
    for worker in (0, 1):
        groups = [unit.group for who, unit in given if who == worker and unit is not None]
        assert len(set(groups)) == sum(a != b for a, b in zip(groups, [None, *groups]))  # never back to an old log
    first = next(unit for worker, unit in given if worker == 0)
    assert first is not None
    assert cost(first) == max(cost(unit) for unit in units if unit.group == first.group)


def test_an_idle_worker_helps() -> None:
    units = [unit for unit in _units() if unit.fold == 0 and unit.cell.landmarks == ()]
    schedule = Schedule(units)
    assert schedule.next(0) is not None
    assert schedule.next(1) is not None  # one group only, begun by worker 0


def test_remaining_time_follows_what_was_timed() -> None:
    units = _units()
    clock = Clock()
    assert clock.left(units, [], 2) is None
    naive = next(unit for unit in units if unit.method == "naive")
    clock.saw(naive, 10.0)
    same = [replace(naive, seed=seed) for seed in range(1, 5)]
    assert clock.left(same, [], 2) == pytest.approx(20.0)
    assert clock.left([], [(same[0], 4.0)], 2) == pytest.approx(6.0)
    other = next(unit for unit in units if unit.method == "cfc")
    assert clock.left([other], [], 1) == pytest.approx(10.0 * cost(other) / cost(naive))


def test_progress_is_told(tmp_path: Path) -> None:
    heard: list[Progress] = []
    go(tmp_path, tell=heard.append)
    assert (heard[0].done, heard[-1].done, heard[-1].total, heard[-1].running) == (0, 4, 4, ())
    assert all(earlier.done <= later.done for earlier, later in pairwise(heard))


def test_the_store_reads_what_it_wrote(tmp_path: Path) -> None:
    go(tmp_path, tiny(methods=("naive",)))
    store = Store(tmp_path)
    (plan,) = store.plans()
    frame = store.per_query(plan.units[0])
    assert frame.columns[0] == "query_id"
    assert frame.height == 6
    assert {"ndcg@10", "err@1"} <= set(frame.columns)
