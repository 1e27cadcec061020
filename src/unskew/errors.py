"""What can go wrong, by name: every error a user can meet is one of these.

Messages say what was found, where, what was expected, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from types import ModuleType


class UnskewError(Exception):
    """Anything that unskew refuses to do, with the reason and the way out."""


class DataError(UnskewError, ValueError):
    """Input that cannot be right: rows, columns, keys or values."""


class FileFormatError(DataError):
    """A file that is not what it should be: where (line) and what was found."""


class ColumnError(DataError):
    """A column that is missing, repeated or of the wrong type."""


class FeatureError(DataError):
    """Features that cannot be used: text, not finite, missing, too many, in another order."""


class GradeError(DataError):
    """Human grades that are fractional, negative or beyond the maximum."""


class LogError(DataError):
    """A click log that contradicts itself: positions, clicks, sessions."""


class PartitionError(DataError):
    """A log in parts whose parts do not hold whole queries."""


class KeyMismatchError(DataError):
    """Two tables whose keys do not fit together."""


class SettingError(UnskewError, ValueError):
    """A setting with a value that is not among the allowed ones."""


class NotFittedError(UnskewError, ValueError, AttributeError):
    """A model that was asked for scores before it was fitted."""


class ModelFileError(UnskewError, ValueError):
    """A saved model or export that is missing, cut short, edited or too new."""


class OtherFileError(ModelFileError):
    """A file that is not the export which its parity file was written with, and that cannot be scored."""


class ExportError(UnskewError, ValueError):
    """An export that could not be exact, with the reason and the alternative."""


class OutputError(UnskewError, OSError):
    """A file or folder that cannot be written."""


class ClusterError(UnskewError, RuntimeError):
    """A cluster that cannot be reached, or that lost more than it could make good."""


class MissingExtraError(UnskewError, ImportError):
    """An optional dependency that is not installed."""


class UnskewWarning(UserWarning):
    """Something a user should know that does not stop the work."""


def require_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or say which extra of unskew brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs the package '{module}', which is not installed.\n"
            f"Install it with: pip install 'unskew[{extra}]'"
        ) from error


def check_choice(name: str, value: object, allowed: Iterable[object]) -> None:
    """Refuse a setting that is not among the allowed ones, listing them."""
    options = list(allowed)
    if value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise SettingError(f"{name} must be one of {listed}, but {value!r} was given.")
