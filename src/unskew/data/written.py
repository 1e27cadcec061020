"""What a file that unskew wrote says about itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from unskew.data.columns import LogColumns
from unskew.data.ranking import RankingData
from unskew.data.tables import Table
from unskew.errors import FileFormatError

KEY = "unskew"
FORMAT = 1


def metadata_of(kind: str, data: RankingData) -> dict[str, str]:
    """Key-value pairs for the Parquet footer: what the columns alone do not say."""
    facts = {"format": FORMAT, "kind": kind, "max_grade": data.max_grade, "features": list(data.feature_names)}
    return {KEY: json.dumps(facts, ensure_ascii=False)}


def facts_of_file(table: Table) -> dict[str, Any]:
    """What the file says about itself; empty for a file of another hand."""
    if KEY not in table.metadata:
        return {}
    try:
        facts = json.loads(table.metadata[KEY])
        version = int(facts["format"])
    except (ValueError, TypeError, KeyError):
        return {}
    if version > FORMAT:
        raise FileFormatError(
            f"{table.source} was written in format {version}, but this version of unskew reads up to {FORMAT}. "
            "Install a newer unskew."
        )
    return dict(facts)


def complete(columns: LogColumns, *tables: Table | None) -> LogColumns:
    """Settings completed by what the first file that says something says about itself."""
    facts = [facts_of_file(table) for table in tables if table is not None]
    known = next((fact["max_grade"] for fact in facts if fact.get("max_grade") is not None), None)
    return replace(columns, max_grade=known) if columns.max_grade is None and known is not None else columns
