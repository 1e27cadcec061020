"""Which page a folder wants: that of a run, or that of a saved model."""

from __future__ import annotations

from pathlib import Path

from unskew.data.clicks import ClickLog
from unskew.deploy.manifest import MANIFEST
from unskew.errors import DataError, SettingError
from unskew.report.page import Page


def page_for(source: Path, *, log: ClickLog | None = None, log_name: str = "LOG", seed: int = 0) -> Page:
    """The page of a run's folder, or of a saved model (with its log, if given)."""
    if (source / MANIFEST).is_file():
        from unskew.report.model_page import model_page

        return model_page(source, log=log, log_name=log_name, seed=seed)
    if (source / "plans").is_dir():
        if log is not None:
            raise SettingError("--log belongs to a saved model; a run has the logs it made itself.")
        from unskew.report.run_page import run_page

        return run_page(source)
    raise DataError(
        f"{source} is neither a run (a folder with plans/, from 'unskew bench run … --out {source}') nor a saved "
        f"model (a folder with {MANIFEST}, from 'unskew fit … --out {source}')."
    )
