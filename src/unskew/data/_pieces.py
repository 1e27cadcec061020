"""Text files in pieces of whole lines, whatever they are compressed with."""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import zstandard

from unskew.errors import FileFormatError

# Small enough for the pieces under way to be small beside any matrix, large enough to be parsed at full speed.
PIECE_BYTES = 512 << 10
# One row of 100,000 features takes about 2 MB; a longer line is a file of another kind.
LONGEST_LINE = 64 << 20

_COMPRESSED = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
# What people hand over by mistake, told by its first bytes.
OTHER_KINDS = {
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"BZh": "compressed with bzip2: unpack it first",
    b"\xff\xfe": "text in UTF-16: save it as UTF-8",
    b"\xfe\xff": "text in UTF-16: save it as UTF-8",
    b"\x93NUMPY": "a numpy array",
    b"\x89HDF": "an HDF5 file",
}

_EXPECTED = "Expected lines such as '2 qid:10 1:0.5 2:3', plain or compressed with gzip, xz or zstd."


@dataclass(frozen=True)
class Piece:
    """Whole lines of a text file.

    source : the file's name, for messages.
    text : the lines; the last one ends with a newline too.
    first_line : the number of the first line in the file, from 1.
    unfinished : whether the file's last line (then alone in its piece) had no newline.
    """

    source: str
    text: bytes
    first_line: int
    unfinished: bool = False


def read_pieces(path: str | os.PathLike[str], *, size: int = PIECE_BYTES) -> Iterator[Piece]:
    """The file's lines in pieces of about `size` bytes; plain text, .gz, .xz or .zst told apart by their first bytes.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = path.write_bytes(b"one\\ntwo\\nthree")
    >>> [(piece.text, piece.first_line, piece.unfinished) for piece in read_pieces(path)]
    [(b'one\\ntwo\\n', 1, False), (b'three\\n', 3, True)]
    """
    path = Path(path)
    rest, line = b"", 1
    blocks = _blocks(path, size)
    while True:
        try:
            block = next(blocks, b"")
        except (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, gzip.BadGzipFile) as error:
            raise _damaged(path, error, line + rest.count(b"\n")) from error
        if line == 1 and not rest:
            block = block.removeprefix(b"\xef\xbb\xbf")  # some editors mark UTF-8 text this way
        if b"\0" in block:
            raise FileFormatError(
                f"{path}, line {line}: this is a binary file (it has zero bytes), not text. {_EXPECTED}"
            )
        if not block:
            break
        end = block.rfind(b"\n") + 1
        if end:
            text = rest + block[:end]
            yield Piece(str(path), text, line)
            line += text.count(b"\n")
            rest = block[end:]
        else:
            rest += block
            if len(rest) > LONGEST_LINE:
                raise FileFormatError(
                    f"{path}, line {line}: longer than {LONGEST_LINE >> 20} MB without a line end. {_EXPECTED}"
                )
    if line == 1 and b"\r" in rest.rstrip():
        raise FileFormatError(f"{path} ends its lines with CR alone. Save it with line ends of Unix or Windows.")
    if rest:
        yield Piece(str(path), rest + b"\n", line, unfinished=True)


def compression_of(path: str | os.PathLike[str]) -> str | None:
    """'gzip', 'xz', 'zstd' or None for plain text, by the file's first bytes; other kinds of file are refused."""
    path = Path(path)
    refuse_pipe(path)
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except FileNotFoundError:
        raise FileFormatError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise FileFormatError(f"{path} is a folder, but a file is needed.") from None
    except OSError as error:
        raise FileFormatError(f"Cannot read {path}: {error.strerror or error}.") from error
    for magic, kind in OTHER_KINDS.items():
        if start.startswith(magic):
            raise FileFormatError(f"{path} is {kind}. {_EXPECTED}")
    return next((name for magic, name in _COMPRESSED.items() if start.startswith(magic)), None)


def refuse_pipe(path: Path) -> None:
    """Refuse a pipe: files are looked at before they are read, and what a pipe gave does not come again."""
    if path.is_fifo():
        raise FileFormatError(f"{path} is a pipe, but the data is read more than once. Write it to a file first.")


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    kind = compression_of(path)
    with path.open("rb") as file:
        if kind == "zstd":
            yield from _zstd_blocks(file, size)
            return
        # gzip and lzma raise EOFError when the stream ends too early.
        with gzip.open(file) if kind == "gzip" else lzma.open(file) if kind == "xz" else file as text:
            while block := text.read(size):
                yield block


def _zstd_blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    # The stream reader of zstandard takes a cut file for a whole one, so frames are followed here. Small reads keep
    # what one of them can expand to small.
    expander = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
    gathered, length, started = [], 0, False
    while raw := file.read(8192):
        while raw:
            if expander.eof:
                expander = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
            started = True
            gathered.append(expander.decompress(raw))
            length += len(gathered[-1])
            raw = expander.unused_data
            if length >= size:
                yield b"".join(gathered)
                gathered, length = [], 0
    if length:
        yield b"".join(gathered)
    if started and not expander.eof:
        raise EOFError("the zstd frame ends too early")


def _damaged(path: Path, error: Exception, line: int) -> FileFormatError:
    if isinstance(error, EOFError):
        return FileFormatError(
            f"{path} is cut short: its compressed stream ends in the middle, at line {line} of the text. "
            "Copy or download it again."
        )
    return FileFormatError(
        f"{path} is damaged: it cannot be decompressed beyond line {line} of the text ({error}). "
        "Copy or download it again."
    )
