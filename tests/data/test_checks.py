from __future__ import annotations

import polars as pl
import pytest

from unskew._words import percent
from unskew.data.checks import Check, enforce, spell
from unskew.data.columns import LogColumns
from unskew.data.frames import log_from_frame
from unskew.data.validation import Validation, validate_log
from unskew.errors import DataError, LogError


def statuses(outcome: Validation) -> dict[str, str]:
    return {check.name: check.status for check in outcome.checks}


def test_a_sound_log_passes_everything(tidy_frame):
    outcome = validate_log(tidy_frame(seed=2))
    assert set(statuses(outcome).values()) == {"PASS"}
    assert outcome.status == "PASS"
    clicks = int(tidy_frame(seed=2)["click"].sum())
    counts = {"impressions": 60, "sessions": 12, "queries": 4, "items": 20, "clicks": clicks, "features": 2}
    assert outcome.summary == counts


def test_validation_and_the_reader_agree(bad_log):
    outcome = validate_log(bad_log.frame)
    assert outcome.status == "FAIL"
    failed = [check for check in outcome.checks if check.status == "FAIL"]
    with pytest.raises(bad_log.error) as caught:
        log_from_frame(bad_log.frame)
    assert str(caught.value) in [check.text() for check in failed]
    assert caught.value.for_cli in [check.text(cli=True) for check in failed]


def test_everything_wrong_is_listed_at_once(tidy_frame):
    frame = tidy_frame().with_columns(pl.col("position") - 1, click=pl.lit(5), title=pl.lit("x"))
    failed = {name for name, status in statuses(validate_log(frame)).items() if status == "FAIL"}
    assert failed == {"position: 1 or greater", "click: 0 or 1", "features: numbers"}


def test_the_message_of_the_style_guide():
    frame = pl.DataFrame(
        {
            "query_id": ["q1", "q17", "q17", "q2"],
            "session_id": [1, 2, 2, 3],
            "item_id": ["d1", "d4", "d5", "d9"],
            "position": [0, 0, 1, 0],
            "click": [0, 1, 0, 0],
            "x": [1.0, 2.0, 3.0, 4.0],
        }
    )
    with pytest.raises(LogError) as caught:
        log_from_frame(frame.slice(1).vstack(frame.head(1)))
    assert str(caught.value) == (
        "position must be 1 or greater, but 3 rows have 0 (first: query 'q17', item 'd4').\n"
        "If your positions start at 0, pass position_base=0."
    )


def test_offending_rows_carry_their_number_in_the_table(tidy_frame):
    frame = tidy_frame().reverse()
    doubled = frame.with_columns(position=pl.when(pl.col("position") == 1).then(2).otherwise("position"))
    check = validate_log(doubled)["position: once a session"]
    assert check.count == 12
    assert len(check.rows) == 5
    for row in check.rows:
        found = frame.row(row["row"] - 1, named=True)
        assert (found["query_id"], found["session_id"]) == (row["query_id"], row["session_id"])
        assert found["item_id"] == row["item_id"]
        assert found["position"] in (1, 2)


@pytest.mark.parametrize(
    ("name", "change", "count", "words"),
    [
        ("position: no gaps", pl.col("position") * 2, 12, "skip positions"),
        ("features: varied", pl.lit(1.0).alias("age"), 1, "'age'"),
        ("features: no copies", pl.col("position").cast(pl.Float64).alias("age"), 1, "'age' is the same as position"),
        ("features: no copies", (pl.col("position") - 1).alias("age"), 1, "'age' is the same as position"),
        ("features: no copies", pl.col("click").alias("bm25"), 1, "'bm25' is the same as click"),
        (
            "position: varied",
            (pl.col("position") == 3).cast(pl.Int8).alias("click"),
            12,
            "clicks are at position 3",
        ),
        ("query: clicked", (pl.int_range(pl.len()) < 3).alias("click"), 3, "3 of 4 queries (75 %)"),
    ],
)
def test_warnings(tidy_frame, name, change, count, words):
    outcome = validate_log(tidy_frame().with_columns(change))
    assert outcome.status == "WARN"
    check = outcome[name]
    assert (check.status, check.count) == ("WARN", count)
    assert words in check.message
    warned = {other for other, status in statuses(outcome).items() if status == "WARN"}
    assert warned - {"features: of the item"} == {name}  # a copy of position or click changes from list to list, too
    log_from_frame(tidy_frame().with_columns(change))  # a warning does not stop the reader


def test_a_feature_called_weight_is_asked_about(tidy_frame):
    """A parcel's weight must not become the weight of an impression without a word."""
    frame = tidy_frame().with_columns(weight=pl.col("age") + 1)
    check = validate_log(frame)["weight: meant"]
    assert check.status == "WARN"
    assert "--weight none" in check.text(cli=True)
    assert "weight: meant" not in statuses(validate_log(frame, columns=LogColumns(weight=None)))
    renamed = frame.rename({"weight": "importance"})
    assert "weight: meant" not in statuses(validate_log(renamed, columns=LogColumns(weight="importance")))
    assert "weight: meant" not in statuses(validate_log(frame.with_columns(weight=pl.lit(1.0))))


def test_what_has_no_weight_is_not_counted(tidy_frame):
    """A log that counts for nothing but for two queries must not look like a whole one."""
    frame = tidy_frame(seed=2)
    counts = frame["query_id"].is_in(["q0", "q1"])
    columns = LogColumns(weight="how_often")
    outcome = validate_log(frame.with_columns(how_often=counts.cast(pl.Float64)), columns=columns)
    check = outcome["weight: above 0"]
    clicked = int(frame.filter(~counts)["click"].sum())
    assert (check.status, check.count, check.rows[0]["query_id"]) == ("WARN", 30, "q2")
    assert check.message == (
        f"30 impressions of 60 have weight 0 and count for nothing, {clicked} of them clicked (first: query 'q2', item "
        f"'{frame.filter(~counts)['item_id'][0]}')."
    )
    assert outcome.summary["clicks"] == frame.filter(counts)["click"].sum()
    assert "2 of 4 queries (50 %) have no click of a weight above 0" in outcome["query: clicked"].message
    assert "weight: above 0" not in statuses(validate_log(frame.with_columns(how_often=pl.lit(1.0)), columns=columns))
    place = pl.when((pl.col("position") == 2) & (pl.col("click") == 1)).then(1.0).otherwise(0.0)
    one = validate_log(frame.with_columns(how_often=place), columns=columns)
    assert "All clicks are at position 2" in one["position: varied"].message


def counted(orders: dict[str, list[list[int]]]) -> pl.DataFrame:
    """A log of counts: for every query the clicks of its orders, which turn round each time."""
    rows = [
        (
            query,
            f"{query}/{number}",
            f"d{(place + number) % len(clicks)}",
            place + 1,
            count,
            float(place),
            float(number),
        )
        for query, sessions in orders.items()
        for number, clicks in enumerate(sessions)
        for place, count in enumerate(clicks)
    ]
    return pl.DataFrame(
        rows, schema=["query_id", "session_id", "item_id", "position", "click", "bm25", "age"], orient="row"
    )


@pytest.mark.parametrize(
    ("sessions", "status"),
    [
        ([[6000, 4000], [60, 40]], "WARN"),
        ([[0, 0], [60, 40]], "WARN"),
        ([[6000, 4000], [2500, 1500]], "PASS"),  # not three times as many
        ([[8, 3], [2, 1]], "PASS"),  # by chance
        ([[6000, 4000]], "PASS"),  # one order
        ([[60, 40]] * 19 + [[0, 1]], "PASS"),  # one odd session of many
        ([[60, 40]] * 10 + [[6, 1]] * 10, "WARN"),
    ],
)
def test_counts_of_unlike_traffic(sessions, status):
    frame = counted({"quiet": [[7, 2], [5, 4]], "loud": sessions})
    check = validate_log(frame, columns=LogColumns(counts=True))["counts: like traffic"]
    assert check.status == status
    if status == "WARN":
        totals = sorted(map(sum, sessions))
        assert (check.count, check.rows) == (1, ({"query_id": "loud"},))
        assert f"(first: query 'loud', {totals[0]:,} and {totals[-1]:,} clicks)" in check.message
        assert "Log impressions" in check.hint


def test_few_queries_of_unlike_traffic_are_passed_over_and_single_clicks_have_no_traffic(tidy_frame):
    orders = {f"q{number}": [[7, 2], [5, 4]] for number in range(10)}
    columns = LogColumns(counts=True)
    loud = counted({**orders, "loud": [[6000, 4000], [60, 40]]})
    assert validate_log(loud, columns=columns)["counts: like traffic"].status == "PASS"
    assert "counts: like traffic" not in statuses(validate_log(tidy_frame(), columns=columns))


def test_clicks_without_weight_are_refused_at_the_door(tidy_frame):
    frame = tidy_frame().with_columns(how_often=1.0 - pl.col("click"))
    check = validate_log(frame, columns=LogColumns(weight="how_often"))["weight: some"]
    assert (check.status, "No click has a weight above 0" in check.message) == ("FAIL", True)
    with pytest.raises(LogError, match="No click has a weight above 0"):
        log_from_frame(frame, weight="how_often")
    assert log_from_frame(frame, weight="how_often", need_clicks=False).n_counted_clicks == 0


def test_features_of_the_impression_are_named(tidy_frame):
    frame = tidy_frame(sessions=2)
    assert validate_log(frame)["features: of the item"].status == "PASS"
    check = validate_log(frame.with_columns(hour=pl.int_range(pl.len()).cast(pl.Float64)))["features: of the item"]
    assert (check.status, "'hour'" in check.message) == ("WARN", True)
    assert "--feature-columns" in check.text(cli=True)


def test_queries_with_a_single_item(tidy_frame):
    frame = tidy_frame().filter((pl.col("query_id") != "q1") | (pl.col("item_id") == "d2"))
    check = validate_log(frame)["query: several items"]
    assert (check.status, check.count, check.rows) == ("WARN", 1, ({"query_id": "q1"},))


def test_every_item_at_the_same_position(tidy_frame):
    frame = tidy_frame(sessions=1).with_columns(session_id=pl.int_range(pl.len()), position=pl.lit(4))
    outcome = validate_log(frame)
    assert "Every impression is at position 4" in outcome["position: varied"].message


def test_a_log_without_sessions_is_said(tidy_frame):
    check = validate_log(tidy_frame(sessions=1).drop("session_id"))["session: told apart"]
    assert check.status == "WARN"


def test_columns_that_are_not_used_are_named(tidy_frame):
    frame = tidy_frame().with_columns(relevance=pl.lit(1))
    check = validate_log(frame, columns=LogColumns(relevance=None))["features: present"]
    assert check.message == "2 features: 'bm25', 'age'; not used: 'relevance'"


def test_the_policy_is_named(tidy_frame):
    assert "deterministic" in validate_log(tidy_frame(sessions=1))["policy"].message
    moved = validate_log(tidy_frame(sessions=4))["policy"]
    positions = tidy_frame(sessions=4).group_by("query_id", "item_id").agg(pl.col("position").n_unique())["position"]
    assert moved.count == int((positions > 1).sum())
    assert percent((positions > 1).mean()) in moved.message


def test_missing_features_warn_when_they_are_kept(tidy_frame):
    frame = tidy_frame().with_columns(age=pl.when(pl.col("item_id") == "d1").then(float("nan")).otherwise("age"))
    assert validate_log(frame)["features: complete"].status == "FAIL"
    check = validate_log(frame, columns=LogColumns(missing="keep"))["features: complete"]
    assert (check.status, check.count) == ("WARN", 12)


def test_a_second_table_is_checked_too(tidy_frame, tmp_path):
    frame = tidy_frame()
    features = frame.select("query_id", "item_id", "bm25", "age").unique(maintain_order=True)
    log = frame.drop("bm25", "age")
    assert validate_log(log, feature_table=features).status == "PASS"
    features.slice(3).write_csv(tmp_path / "features.csv")
    check = validate_log(log, feature_table=tmp_path / "features.csv")["features: keys match"]
    assert (check.status, check.count) == ("FAIL", 3)
    assert check.rows[0].keys() == {"row", "query_id", "item_id"}
    outcome = validate_log(log, feature_table=features.with_columns(age=pl.lit("old")))
    assert outcome["features: numbers"].status == "FAIL"


def test_asking_for_a_check_that_was_not_made(tidy_frame):
    with pytest.raises(KeyError, match="no check 'weather'"):
        validate_log(tidy_frame())["weather"]


def test_enforce_raises_the_first_failure_only():
    checks = [Check("a", "PASS"), Check("b", "WARN", "hm"), Check("c", "FAIL", "no", error=DataError)]
    assert enforce(checks[:2])
    with pytest.raises(DataError, match="no"):
        enforce(iter(checks))


@pytest.mark.parametrize(
    ("hint", "python", "cli"),
    [
        ("{position_base=0}", "position_base=0", "--position-base 0"),
        ("{counts=True}", "counts=True", "--counts"),
        ("{relevance=None}", "relevance=None", "--relevance none"),
        ("{feature_table='FILE'}", "feature_table='FILE'", "--features FILE"),
        ("{features=['a', 'b']}", "features=['a', 'b']", "--feature-columns a,b"),
        ("{click='it was clicked'}", "click='it was clicked'", "--click 'it was clicked'"),
    ],
)
def test_hints_speak_both_languages(hint, python, cli):
    assert spell(hint, cli=False) == python
    assert spell(hint, cli=True) == cli
