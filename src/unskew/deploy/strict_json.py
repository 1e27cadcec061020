"""JSON from files that may have been edited: no NaN, no doubled keys, no depth that exhausts the stack."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from unskew.errors import ModelFileError


def read_json(content: bytes | str, what: str, *, parse_float: Callable[[str], Any] = float) -> Any:
    """The document, or a ModelFileError that begins with `what`; parse_float=str keeps numbers as they are written.

    >>> read_json('{"a": 1}', "The file")
    {'a': 1}
    """

    def refuse(constant: str) -> NoReturn:
        raise ModelFileError(f"{what} holds {constant}, which is not JSON.")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            raise ModelFileError(f"{what} gives a key twice.")
        return made

    try:
        return json.loads(content, parse_constant=refuse, object_pairs_hook=unique, parse_float=parse_float)
    except UnicodeDecodeError:
        raise ModelFileError(f"{what} is not UTF-8 text.") from None
    except RecursionError:
        raise ModelFileError(f"{what} is nested too deeply.") from None
    except ValueError as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{what} is not JSON: {str(error)[:200]}.") from None
