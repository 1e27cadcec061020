"""What a wheel must hold beside the modules."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "unskew"
# What Python and editors leave behind.
LEFT_BEHIND = ("__pycache__", ".mypy_cache", ".DS_Store")


def test_every_file_that_is_no_module_is_package_data() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["unskew"]
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern) if path.is_file()}
    there = {
        path
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix != ".py" and not set(path.parts) & set(LEFT_BEHIND)
    }
    assert there == packed
    names = {path.relative_to(PACKAGE).as_posix() for path in packed}
    assert {"py.typed", "bench/published.json", "report/templates/page.html", "report/templates/body.html"} <= names


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [folder.name for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []
