"""Reading LETOR text: known answers, scikit-learn's loader, odd but legal files, and every kind of bad one."""

from __future__ import annotations

import gzip
import lzma
import os
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from unskew.data import _letor_rows, _pieces
from unskew.data.letor import read_letor, write_letor
from unskew.data.ranking import RankingData
from unskew.errors import (
    DataError,
    FeatureError,
    FileFormatError,
    GradeError,
    OutputError,
    SettingError,
    UnskewError,
    UnskewWarning,
)

SIMPLE = b"2 qid:10 1:0.5 2:0 3:1e-3\n0 qid:10 1:-1 2:3.25 3:7\n1 qid:7 1:0 2:0 3:100000\n"
PACKERS = {
    "plain": lambda text: text,
    "gz": gzip.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


@pytest.fixture
def write(tmp_path: Path):
    def _write(text: bytes | str, name: str = "rows.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return _write


def many_rows(rows: int, features: int, *, seed: int = 0, density: float = 1.0, queries: int = 20) -> bytes:
    """A file of MSLR's look: every feature in order, a space and CRLF at the end of the line."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.lognormal(sigma=3, size=(rows, features)), 6)
    present = rng.random((rows, features)) < density
    query = np.sort(rng.integers(queries, size=rows))
    lines = []
    for row in range(rows):
        cells = " ".join(f"{i + 1}:{values[row, i]:g}" for i in np.flatnonzero(present[row]))
        lines.append(f"{rng.integers(5)} qid:{query[row]} {cells} \r\n")
    return "".join(lines).encode()


def by_sklearn(path: Path, features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    matrix, grades, query = load_svmlight_file(str(path), n_features=features, query_id=True, zero_based=False)
    return matrix.toarray().astype(np.float32), grades, query


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("suffix", ["", ".txt", ".gz", ".xz"])
def test_compression_is_told_by_content_not_by_name(write, packer: str, suffix: str) -> None:
    data = read_letor(write(PACKERS[packer](SIMPLE), f"rows{suffix}"))
    np.testing.assert_array_equal(
        data.features, np.array([[0.5, 0, 1e-3], [-1, 3.25, 7], [0, 0, 100000]], dtype=np.float32)
    )
    assert data.features.dtype == np.float32
    assert data.features.flags.c_contiguous
    assert data.grades.tolist() == [2, 0, 1]
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.query_ids.to_list() == [10, 7]
    assert data.feature_names == ("f1", "f2", "f3")
    assert data.item_ids is None
    assert data.max_grade == 2
    assert data.notes == ()


@pytest.mark.parametrize("density", [1.0, 0.3])
def test_agrees_with_sklearn(write, density: float) -> None:
    path = write(many_rows(800, 136, density=density))
    data = read_letor(path, n_features=136)
    features, grades, query = by_sklearn(path, 136)
    # float64 rounded to float32 against text rounded once: at most the last bit differs
    np.testing.assert_allclose(data.features, features, rtol=2e-7)
    np.testing.assert_array_equal(data.grades, grades)
    np.testing.assert_array_equal(np.repeat(data.query_ids.to_numpy(), data.sizes), query)


def test_pieces_of_any_size_give_the_same(write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(many_rows(60, 9, density=0.6))
    whole = read_letor(path)
    for size in (1, 50, 777):
        monkeypatch.setattr(_pieces.read_pieces, "__kwdefaults__", {"size": size})
        again = read_letor(path)
        np.testing.assert_array_equal(again.features, whole.features)
        np.testing.assert_array_equal(again.offsets, whole.offsets)
        np.testing.assert_array_equal(again.grades, whole.grades)


def test_quick_and_careful_ways_agree(write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        many_rows(100, 20, density=0.7) + b"1 qid:99 3:1e-40 1:.5 2:5. # docid = x\n\n  \n0 qid:99 # nothing\n"
    )
    quick = read_letor(path)
    monkeypatch.setattr(_letor_rows, "_quick", lambda *_: None)
    careful = read_letor(path)
    np.testing.assert_array_equal(quick.features, careful.features)
    np.testing.assert_array_equal(quick.grades, careful.grades)
    assert quick.query_ids.to_list() == careful.query_ids.to_list()


def test_regular_files_take_the_quick_way(write, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the careful way was taken")

    monkeypatch.setattr(_letor_rows, "parse_lines", refuse)
    for density in (1.0, 0.4):
        read_letor(write(many_rows(50, 30, density=density)))
    read_letor(write("2.0 qid:a\t2:1  1:3 \n\n# a remark\n+1 qid:b 1:nan #docid = 7\n"), missing="keep")
    read_letor(write("0 qid:1 1:1.79769313486231570e+308\n"), clip=1e9)


def test_odd_but_legal_rows(write) -> None:
    text = (
        "\ufeff# a comment line: 1 qid:1 1:2\n\n"
        "2 qid:q17  3:1\t1:0.5 # any remark qid:5\r\n"
        "   \t \r\n"
        "0.0 qid:q17\n"
        "  1 qid:q4 2:+4 # docid = nope\n"
    )
    data = read_letor(write(text))
    np.testing.assert_array_equal(data.features, np.array([[0.5, 0, 1], [0, 0, 0], [0, 4, 0]], dtype=np.float32))
    assert data.grades.tolist() == [2, 0, 1]
    assert data.query_ids.to_list() == ["q17", "q4"]
    assert data.item_ids is None  # only one row names its document


def test_query_ids_stay_what_they_were(write) -> None:
    assert read_letor(write("0 qid:-3 1:1\n0 qid:12345678901 1:1\n")).query_ids.to_list() == [-3, 12345678901]
    assert read_letor(write("0 qid:007 1:1\n0 qid:7 1:1\n")).query_ids.to_list() == ["007", "7"]
    assert read_letor(write("0 qid:99999999999999999999 1:1\n")).query_ids.to_list() == ["99999999999999999999"]
    assert read_letor(write("0 qid:é 1:1\n".encode("latin-1"))).query_ids.to_list() == ["é"]


def test_docids_become_item_ids(write) -> None:
    path = write("2 qid:1 1:1 #docid = GX-1 inc = 1 prob = 0.5\n0 qid:1 1:2 # docid=GX-2\n")
    assert read_letor(path).item_ids.to_list() == ["GX-1", "GX-2"]


def test_repeated_docids_are_not_item_ids(write) -> None:
    with pytest.warns(UnskewWarning, match="occur twice in a query"):
        data = read_letor(write("2 qid:1 1:1 #docid = a\n0 qid:1 1:2 #docid = a\n"))
    assert data.item_ids is None


def test_scattered_queries_are_regrouped_with_a_note(write) -> None:
    text = "0 qid:5 1:1 9:1 #docid = a\n1 qid:3 1:2 #docid = b\n2 qid:5 1:3 #docid = c\n0 qid:3 1:4 #docid = d\n"
    with pytest.warns(UnskewWarning, match="regrouped"):
        data = read_letor(write(text))
    assert data.query_ids.to_list() == [5, 3]
    assert data.offsets.tolist() == [0, 2, 4]
    assert data.features[:, 0].tolist() == [1, 3, 2, 4]
    assert data.features[:, 8].tolist() == [1, 0, 0, 0]
    assert data.grades.tolist() == [0, 2, 1, 0]
    assert data.item_ids.to_list() == ["a", "c", "b", "d"]
    assert "4 groups of rows for 2 queries" in data.notes[0]


def test_settings(write) -> None:
    path = write("0 qid:1 0:5 2:nan 3:1.79769313486231570e+308\n")
    data = read_letor(path, zero_based=True, missing="keep", clip=1e6, n_features=6, max_grade=4)
    assert data.feature_names == ("f0", "f1", "f2", "f3", "f4", "f5")
    np.testing.assert_array_equal(data.features, np.array([[5, 0, np.nan, 1e6, 0, 0]], dtype=np.float32))
    assert data.max_grade == 4
    assert data.has_missing


def test_wide_rows_that_come_late(write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pieces.read_pieces, "__kwdefaults__", {"size": 64})
    text = "".join(f"0 qid:1 1:{i} {2 + i % 3 + i // 30}:9\n" for i in range(100))
    path = write(text)
    data = read_letor(path)
    np.testing.assert_array_equal(data.features, by_sklearn(path, 7)[0])


# --- round trip -------------------------------------------------------------------------------------------------------

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def collections(draw: st.DrawFn) -> RankingData:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    rows, width = sum(sizes), draw(st.integers(1, 5))
    values = draw(st.lists(st.lists(floats, min_size=width, max_size=width), min_size=rows, max_size=rows))
    word = st.text("aZ09-_é漢.:", min_size=1, max_size=6)
    ids = draw(
        st.one_of(
            st.lists(st.integers(-(2**60), 2**60), min_size=len(sizes), max_size=len(sizes), unique=True),
            st.lists(word, min_size=len(sizes), max_size=len(sizes), unique=True),
        )
    )
    items = draw(st.none() | st.just([f"d{i}" for i in range(rows)]))
    grades = draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows))
    return RankingData.from_arrays(
        np.array(values), sizes=sizes, grades=grades, query_ids=ids, item_ids=items, max_grade=4
    )


@settings(max_examples=40, deadline=None)
@given(data=collections())
def test_round_trip(data: RankingData, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("round") / "rows.txt"
    write_letor(data, path)
    again = read_letor(path, max_grade=4)
    np.testing.assert_array_equal(again.features, data.features)
    np.testing.assert_array_equal(again.grades, data.grades)
    np.testing.assert_array_equal(again.offsets, data.offsets)
    assert [str(name) for name in again.query_ids] == [str(name) for name in data.query_ids]
    assert again.query_ids.dtype == pl.Int64 or data.query_ids.dtype == pl.String
    assert (again.item_ids is None) == (data.item_ids is None)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_order_of_features_does_not_matter(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(-9, 9, size=(rng.integers(1, 6), 4)).astype(np.float32)
    lines = [" ".join(f"{i + 1}:{row[i]:g}" for i in rng.permutation(4)) for row in values]
    path = tmp_path_factory.mktemp("order") / "rows.txt"
    path.write_text("".join(f"0 qid:1 {line}\n" for line in lines))
    np.testing.assert_array_equal(read_letor(path).features, values)


# --- bad input --------------------------------------------------------------------------------------------------------

GOOD = "1 qid:1 1:0.5 2:1\n"


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ("1 1:0.5 2:1\n", FileFormatError, "there is no qid"),
        ("1\n", FileFormatError, "there is no qid"),
        ("1 qid: 1:0.5\n", FileFormatError, "qid is empty"),
        ("1:0.5 2:0.7\n", FileFormatError, "there is no qid"),
        ("query_id,item_id,f1\n", FileFormatError, "there is no qid"),
        ("1 qid:1 1:0.5 2\n", FileFormatError, "expected 'id:value'"),
        ("1 qid:1 1:0.5 2:\n", FileFormatError, "expected 'id:value'"),
        ("1 qid:1 :0.5\n", FileFormatError, "expected 'id:value'"),
        ("1 qid:1 : \n", FileFormatError, "expected 'id:value'"),
        ("1 qid:1 -1:0.5\n", FileFormatError, "expected 'id:value'"),
        ("1 qid:1 1.5:0.5\n", FileFormatError, "expected 'id:value'"),
        ("1 qid:1 f1:0.5\n", FileFormatError, "expected 'id:value'"),
        ("1 qid:1 1:0.5:7\n", FeatureError, "must be a number, but '0.5:7'"),
        ("1 qid:1 1:red\n", FeatureError, "feature 1 must be a number, but 'red'"),
        ("1 qid:1 1:0,5\n", FeatureError, "must be a number, but '0,5'"),
        ("1 qid:1 1:1_000\n", FeatureError, "must be a number"),
        ("1 qid:1 2:1 1:3 2:4\n", FeatureError, "feature 2 is given twice"),
        ("1 qid:1 2:1 2:1\n", FeatureError, "feature 2 is given twice"),
        ("1 qid:1 0:1 2:1\n", FeatureError, "must start at 1, but 0 was found.*zero_based=True"),
        ("1 qid:1 1000000:1\n", FeatureError, "feature id 1000000 is beyond the 100,000"),
        ("1 qid:1 99999999999999999999999:1\n", FeatureError, "is beyond the 100,000"),
        ("1 qid:1 1:nan\n", FeatureError, "feature 1 is missing .NaN..*missing='keep'"),
        ("1 qid:1 1:-inf\n", FeatureError, "feature 1 is infinite"),
        ("1 qid:1 1:1e39\n", FeatureError, "beyond what float32 can hold.*clip="),
        ("1.5 qid:1 1:1\n", GradeError, "whole number, but 1.5"),
        ("nan qid:1 1:1\n", GradeError, "whole number, but nan"),
        ("-1 qid:1 1:1\n", GradeError, "between 0 and 30, but -1"),
        ("31 qid:1 1:1\n", GradeError, "between 0 and 30, but 31"),
        ("good qid:1 1:1\n", GradeError, "whole number, but 'good'"),
    ],
)
@pytest.mark.parametrize("before", [0, 3])
def test_bad_rows_name_file_and_line(write, bad: str, error: type[Exception], message: str, before: int) -> None:
    path = write("# first\n" + GOOD * before + bad + GOOD)
    with pytest.raises(error, match=message) as caught:
        read_letor(path)
    assert type(caught.value) is error
    assert f"{path}, line {before + 2}: " in str(caught.value)


def test_line_numbers_hold_across_pieces(write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pieces.read_pieces, "__kwdefaults__", {"size": 100})
    path = write(lzma.compress((GOOD * 500 + "1 qid:1 1:x\n" + GOOD * 500).encode()))
    with pytest.raises(FeatureError, match="line 501: "):
        read_letor(path)


def test_grades_beyond_the_given_maximum(write) -> None:
    path = write("1 qid:1 1:1\n4 qid:1 1:1\n")
    with pytest.raises(GradeError, match="line 2: the grade must lie between 0 and 2, but 4"):
        read_letor(path, max_grade=2)


def test_ids_beyond_n_features(write) -> None:
    with pytest.raises(FeatureError, match="line 2: feature id 7 is beyond the 3 that n_features allows"):
        read_letor(write(GOOD + "1 qid:1 7:1\n"), n_features=3)


@pytest.mark.parametrize("keep", ["missing", "clip"])
def test_infinite_words_are_refused_whatever_is_allowed(write, keep: str) -> None:
    options = {"missing": {"missing": "keep"}, "clip": {"clip": 1e6}}[keep]
    with pytest.raises(FeatureError, match="line 1: feature 1 is infinite"):
        read_letor(write("0 qid:1 1:inf\n"), **options)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n# here", "  \r\n"])
@pytest.mark.parametrize("packer", PACKERS)
def test_empty_files(write, text: str, packer: str) -> None:
    with pytest.raises(FileFormatError, match="is empty"):
        read_letor(write(PACKERS[packer](text.encode())))


def test_rows_without_any_feature(write) -> None:
    with pytest.raises(FeatureError, match="no row has any feature"):
        read_letor(write("0 qid:1\n1 qid:1\n"))


def test_a_full_file_cut_anywhere_in_a_line_is_refused(write) -> None:
    line = "1 qid:1 1:0.5 2:1 3:77\n"
    for cut in range(1, len(line) - 2):  # within the last value nothing can tell
        with pytest.raises(UnskewError, match="line 3: ") as caught:
            read_letor(write(line * 2 + line[:cut]))
        assert "cut short" in str(caught.value)


def test_a_last_line_without_newline_is_fine_if_it_is_whole(write) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_letor(write(GOOD * 2 + GOOD.strip())).n_rows == 3


def test_a_sparse_last_line_without_newline_is_noted(write) -> None:
    with pytest.warns(UnskewWarning, match="line 3: the last line has no line end"):
        data = read_letor(write("0 qid:1 1:1 3:1\n0 qid:1 2:4 3:4\n0 qid:1 2:1"))
    assert data.n_rows == 3


@pytest.mark.parametrize("packer", ["gz", "xz", "zst"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.999])
def test_cut_compressed_files(write, packer: str, share: float) -> None:
    packed = PACKERS[packer](many_rows(400, 40))
    with pytest.raises(FileFormatError, match=r"is cut short: its compressed stream ends in the middle, at line \d+"):
        read_letor(write(packed[: int(len(packed) * share)]))


@pytest.mark.parametrize("packer", ["gz", "xz", "zst"])
def test_damaged_compressed_files(write, packer: str) -> None:
    compress = zstandard.ZstdCompressor(write_checksum=True).compress if packer == "zst" else PACKERS[packer]
    packed = bytearray(compress(many_rows(400, 40)))
    middle = len(packed) // 2
    packed[middle : middle + 40] = bytes(40)
    # the damage may also give text that is wrong before a checksum shows it
    with pytest.raises(UnskewError, match=r"is damaged|line \d+"):
        read_letor(write(bytes(packed)))


def test_concatenated_frames_are_read_to_the_end(write) -> None:
    for pack in PACKERS.values():
        assert read_letor(write(pack(GOOD.encode()) * 3)).n_rows == 3


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"PAR1\x15\x04", "a Parquet file"),
        (b"PK\x03\x04", "a zip archive"),
        (b"BZh91AY", "bzip2"),
        (b"\xff\xfe2\x00", "UTF-16"),
        (b"\x7fELF\x00\x01\x02", "a binary file"),
        (b"1 qid:1 1:5\n\x00\x00\x00", "a binary file"),
    ],
)
def test_binary_files(write, start: bytes, kind: str) -> None:
    with pytest.raises(FileFormatError, match=kind):
        read_letor(write(start + os.urandom(200)))


def test_random_bytes_are_refused(write) -> None:
    noise = bytes(np.random.default_rng(0).integers(1, 256, size=5000, dtype=np.uint8))
    with pytest.raises(UnskewError):
        read_letor(write(noise))


def test_a_wrong_file_does_not_allocate_the_machine(write) -> None:
    with pytest.raises(FeatureError, match="GB of memory for"):
        read_letor(write("0 qid:1 99999:1\n" * 20_000))


def test_a_line_without_end(write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pieces, "LONGEST_LINE", 1 << 20)
    with pytest.raises(FileFormatError, match="line 1: longer than 1 MB without a line end"):
        read_letor(write(b"1 qid:1 " + b"1:1 " * 1_000_000))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="There is no file"):
        read_letor(tmp_path / "none.txt")
    with pytest.raises(FileFormatError, match="is a folder"):
        read_letor(tmp_path)


def test_wrong_settings(write) -> None:
    with pytest.raises(SettingError, match="missing must be one of"):
        read_letor(write(GOOD), missing="drop")
    with pytest.raises(SettingError, match="clip must be a positive bound"):
        read_letor(write(GOOD), clip=1e300)
    with pytest.raises(SettingError, match="n_features must be 1 or more"):
        read_letor(write(GOOD), n_features=0)
    with pytest.raises(FeatureError, match="GB of memory for"):
        read_letor(write(GOOD), n_features=10**9)


def test_more_features_than_usual_if_they_are_named(write) -> None:
    data = read_letor(write("0 qid:1 200000:1 1:5\n"), n_features=200_000)
    assert data.features[0, [0, 199_999]].tolist() == [5, 1]
    with pytest.raises(FeatureError, match="feature 200000 is given twice"):
        read_letor(write("0 qid:1 200000:1 1:5 200000:1\n"), n_features=200_000)


def test_writing_needs_grades_and_plain_ids(tmp_path: Path) -> None:
    with pytest.raises(GradeError, match="needs human grades"):
        write_letor(RankingData.from_arrays([[1.0]], sizes=[1]), tmp_path / "a.txt")
    data = RankingData.from_arrays([[1.0]], sizes=[1], grades=[1], query_ids=["two words"])
    with pytest.raises(DataError, match="cannot hold the query id 'two words'"):
        write_letor(data, tmp_path / "a.txt")
    with pytest.raises(OutputError):
        write_letor(RankingData.from_arrays([[1.0]], sizes=[1], grades=[1]), tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- the real files ---------------------------------------------------------------------------------------------------


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "queries", "rows", "features", "max_grade", "docids"),
    [
        ("mq2007-part.txt.xz", 1692, 59_135, 46, 2, True),
        ("mq2008.txt.xz", 784, 15_211, 46, 2, True),
        ("mslr-10k-fold1-train-5k.txt.xz", 43, 5000, 136, 4, False),
        ("mslr-10k-fold1-test-5k.txt.xz", 43, 5000, 136, 4, False),
    ],
)
def test_real_files(
    name: str, queries: int, rows: int, features: int, max_grade: int, docids: bool, tmp_path: Path
) -> None:
    folder = os.environ.get("UNSKEW_TEST_DATA")
    if not folder:
        pytest.skip("UNSKEW_TEST_DATA is not set")
    path = Path(folder) / "letor" / name
    data = read_letor(path, max_grade=max_grade)
    assert (data.n_queries, data.n_rows, data.n_features) == (queries, rows, features)
    assert (data.item_ids is not None) == docids
    plain = tmp_path / "plain.txt"
    plain.write_bytes(b"".join(lzma.decompress(path.read_bytes()).splitlines(keepends=True)[:3000]))
    expected, grades, _ = by_sklearn(plain, features)
    np.testing.assert_allclose(data.features[:3000], expected, rtol=2e-7)
    np.testing.assert_array_equal(data.grades[:3000], grades)
