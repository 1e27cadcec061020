"""What every test shares: nothing is ever written into the user's own cache folder."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSKEW_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("UNSKEW_DATA", raising=False)
