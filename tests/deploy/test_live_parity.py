"""The script for live engines, against a stand-in that answers as the engines' interfaces are documented."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from unskew.deploy.export import Exported, export
from unskew.deploy.model import Model
from unskew.deploy.verify import elasticsearch, solr, vespa

SCRIPT = Path(__file__).parents[2] / "docs/live_parity.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("live_parity", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Engine(BaseHTTPRequestHandler):
    """Keeps what is put into it and scores with our readings of the engines' rules."""

    kept: dict[str, Any]
    shift = 0.0
    empty = False

    def _answer(self, code: int, document: Any) -> None:
        content = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _score(self, reader: Any, names: list[str], row: list[float]) -> float:
        content = json.dumps(self.kept["model"]).encode()
        return float(reader.score(content, names, np.array([row], dtype=np.float32))[0]) + self.shift

    def do_DELETE(self) -> None:
        self._answer(404, {})

    def do_PUT(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        self.kept["authorization"] = self.headers.get("Authorization")
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if self.path.endswith("/select"):
            query = urllib.parse.parse_qs(text)["rq"][0]
            row = [float(value) for _, value in sorted(re.findall(r"efi\.f(\d+)=(\S+?)(?=[ }])", query), key=_number)]
            score = self._score(solr, [feature["name"] for feature in self.kept["store"]], row)
            return self._answer(200, {"response": {"docs": [{"score": score}]}})
        body = json.loads(text) if text else {}
        if self.path.endswith("/_search"):
            params = body["rescore"]["query"]["rescore_query"]["sltr"]["params"]
            row = [value for _, value in sorted(params.items(), key=lambda pair: int(pair[0][1:]))]
            names = [feature["name"] for feature in self.kept["featureset"]["features"]]
            if self.empty:
                return self._answer(200, {"hits": {"hits": []}})
            return self._answer(200, {"hits": {"hits": [{"_score": self._score(elasticsearch, names, row)}]}})
        if self.path.endswith("/search/"):
            names = [key[len("input.") :] for key in body if key.startswith("input.")]
            row = [body[f"input.{name}"] for name in names]
            return self._answer(200, {"root": {"children": [{"relevance": self._score(vespa, names, row)}]}})
        if self.path.endswith("/_createmodel") or self.path.endswith("/model-store"):
            self.kept["model"] = body
        elif self.path.endswith("/feature-store"):
            self.kept["store"] = body
        elif "/_featureset/" in self.path:
            self.kept |= body
        return self._answer(200, {})

    def log_message(self, *words: Any) -> None:
        pass


def _number(pair: tuple[str, str]) -> int:
    return int(pair[0])


@pytest.fixture
def server() -> Iterator[tuple[str, type[Engine]]]:
    handler = type("Fresh", (Engine,), {"kept": {}})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["elasticsearch", "opensearch", "solr", "vespa"])
def test_scores_of_an_engine_are_compared(
    models: dict[str, Model],
    script: ModuleType,
    server: tuple[str, type[Engine]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    url, engine = server
    done = export(models["plain"], name, tmp_path / "model.json")
    words = ["live_parity.py", name, str(done.parity), "--url", url, "--rows", "40"]
    if name == "vespa":
        monkeypatch.setattr(sys, "argv", [*words, "--prepare", str(tmp_path / "app")])
        assert script.main() == 0
        assert 'lightgbm("parity.json")' in (tmp_path / "app/schemas/parity.sd").read_text()
        engine.kept["model"] = json.loads((tmp_path / "app/models/parity.json").read_text())
    monkeypatch.setattr(sys, "argv", words)
    assert script.main() == 0
    assert "40 rows" in capsys.readouterr().out
    engine.shift = 0.5
    assert script.main() == 1


def test_an_engine_that_is_not_there(
    models: dict[str, Model], script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = export(models["plain"], "solr", tmp_path / "model.json")
    monkeypatch.setattr(sys, "argv", ["x", "solr", str(done.parity), "--url", "http://127.0.0.1:9"])
    assert script.main() == 2


def _run(script: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["live_parity.py", *map(str, words)])
    return int(script.main())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda done: done.path.write_text(done.path.read_text() + " "), "edited, or of another export"),
        (lambda done: done.path.write_text("{"), "not JSON"),
        (lambda done: done.path.unlink(), "Cannot read"),
        (lambda done: done.parity.unlink(), "Cannot read"),
        (lambda done: done.parity.write_bytes(b"PAR1"), "not JSON"),
        (lambda done: done.parity.write_text("{}"), "not a whole parity file"),
        (lambda done: done.parity.write_text("[1]"), "not a whole parity file"),
        (lambda done: _edit(done.parity, expected=[]), "not a whole parity file"),
        (lambda done: _edit(done.parity, facts={"format": "solr", "sha256": ""}), "written for solr"),
        (lambda done: _edit(done.parity, rows=[[None]], expected=[1], lists=[0]), "missing value"),
    ],
)
def test_files_that_do_not_belong_together_are_not_sent(
    models: dict[str, Model],
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Exported], object],
    message: str,
) -> None:
    done = export(models["plain"], "elasticsearch", tmp_path / "model.json")
    damage(done)
    assert _run(script, monkeypatch, "elasticsearch", done.parity, "--url", "http://127.0.0.1:9") == 2
    assert message in capsys.readouterr().err


def _edit(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_the_exported_file_may_be_called_otherwise(
    models: dict[str, Model],
    script: ModuleType,
    server: tuple[str, type[Engine]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url, engine = server
    done = export(models["plain"], "elasticsearch", tmp_path / "model.json", parity=tmp_path / "proof.json")
    words = ["opensearch", done.parity, "--url", url, "--rows", "5"]
    assert _run(script, monkeypatch, *words) == 2
    assert "--export" in capsys.readouterr().err
    assert _run(script, monkeypatch, *words, "--export", done.path) == 0
    engine.empty = True
    assert _run(script, monkeypatch, *words, "--export", done.path) == 2
    assert "gave no score" in capsys.readouterr().err


def test_a_password_is_sent_and_not_shown(
    models: dict[str, Model],
    script: ModuleType,
    server: tuple[str, type[Engine]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url, engine = server
    done = export(models["plain"], "elasticsearch", tmp_path / "model.json")
    named = url.replace("http://", "http://me:p%40ss@")
    assert _run(script, monkeypatch, "elasticsearch", done.parity, "--url", named, "--rows", "5") == 0
    assert base64.b64decode(engine.kept["authorization"].removeprefix("Basic ")) == b"me:p@ss"
    assert _run(script, monkeypatch, "elasticsearch", done.parity, "--url", "http://me:secret@127.0.0.1:9") == 2
    told = capsys.readouterr()
    assert "secret" not in told.err + told.out
    assert "127.0.0.1:9 does not answer" in told.err
