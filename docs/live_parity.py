"""Ask a running engine for the scores of a parity file, and compare them with the model's.

    python docs/live_parity.py elasticsearch model.json.parity.json --url http://localhost:9200
    python docs/live_parity.py opensearch    model.json.parity.json --url http://localhost:9200
    python docs/live_parity.py solr          model.json.parity.json --url http://localhost:8983 --collection products
    python docs/live_parity.py vespa         model.json.parity.json --url http://localhost:8080

The rows of a parity file are no documents of yours: their feature values travel with the query. For that the script
loads the exported model a second time, under the name `unskew_parity`, over features that are nothing but parameters of
the query, scores one document once per row, and takes everything away again. Elasticsearch and OpenSearch get a scratch
index of one empty document; Solr uses any document of the collection; for Vespa, `--prepare DIR` writes a small
application package to deploy first. Rows with missing values cannot travel this way and are left out.

Exit code: 0 if all scores agree, 1 if not, 2 if the engine refused. Needs Python alone, no packages.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import http.client
import json
import shlex
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

SCRATCH = "unskew_parity"
# Engine → the port it usually listens on.
PORTS = {"elasticsearch": 9200, "opensearch": 9200, "solr": 8983, "vespa": 8080}
Row = list[float]


class Refused(Exception):
    """What keeps the engine from being asked, in words."""


def main() -> int:
    options = _options()
    try:
        document, export = read_files(options)
        if options.prepare is not None:
            prepare_vespa(options.prepare, export, len(document["features"]))
            print(f"Deploy it with: vespa deploy {shlex.quote(str(options.prepare))}")
            return 0
        return compare(document, ask(options, document, export), options.tolerance)
    except Refused as refusal:
        print(refusal, file=sys.stderr)
    except urllib.error.HTTPError as error:
        print(f"{options.engine} refused: {error.code} {error.read().decode(errors='replace')[:500]}", file=sys.stderr)
    except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
        shown = options.url.rpartition("@")[2]  # no password on the screen
        print(f"{shown} does not answer: {getattr(error, 'reason', error)}", file=sys.stderr)
    return 2


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", choices=list(PORTS))
    parser.add_argument("parity", type=Path, help="the parity file (.json) that the export wrote")
    parser.add_argument("--url", help="where the engine listens (user:password@ before the host is sent as such)")
    parser.add_argument("--cacert", type=Path, help="certificate of an authority to trust, for https")
    parser.add_argument("--export", type=Path, help="the exported file; by default the parity file's name tells it")
    parser.add_argument("--collection", default=SCRATCH, help="Solr: a collection with the LTR module and a document")
    parser.add_argument("--prepare", type=Path, metavar="DIR", help="Vespa: write the application package and stop")
    parser.add_argument("--rows", type=int, default=1000, help="rows to ask for at most")
    parser.add_argument("--tolerance", type=float, default=1e-6, help="relative to the largest score")
    options = parser.parse_args()
    options.url = options.url or f"http://localhost:{PORTS[options.engine]}"
    if options.cacert is not None:
        try:
            context = ssl.create_default_context(cafile=options.cacert)
        except OSError as error:
            parser.error(f"--cacert: {options.cacert} cannot be used: {error.strerror or error}")
        urllib.request.install_opener(urllib.request.build_opener(urllib.request.HTTPSHandler(context=context)))
    return options


def read_files(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parity file and the export it was written with, after checking that they belong together."""
    document = _read_json(options.parity)
    try:
        made_for, seal = document["facts"]["format"], document["facts"]["sha256"]
        whole = len(document["rows"]) == len(document["expected"]) == len(document["lists"]) > 0
    except (KeyError, TypeError):
        whole = False
    if not whole:
        raise Refused(f"{options.parity} is not a whole parity file. Export the model again.")
    if made_for != options.engine and {made_for, options.engine} != {"elasticsearch", "opensearch"}:
        raise Refused(f"{options.parity} was written for {made_for}, not for {options.engine}.")
    path = options.export or Path(str(options.parity).removesuffix(".parity.json"))
    if path == options.parity:
        raise Refused(f"The name of {path} does not tell the exported file. Name it with --export.")
    export = _read_json(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != seal:
        raise Refused(f"{path} is not the file that {options.parity} was written with: edited, or of another export.")
    return document, export


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refused(f"Cannot read {path}: {error.strerror}.") from None
    except ValueError:
        raise Refused(f"{path} is not JSON. This script reads no Parquet.") from None


def ask(options: argparse.Namespace, document: dict[str, Any], export: dict[str, Any]) -> dict[int, float]:
    """Row number → the engine's score."""
    rows = [number for number, row in enumerate(document["rows"]) if None not in row][: max(1, options.rows)]
    if not rows:
        raise Refused("Every row of the parity file has a missing value, and such rows cannot be asked for.")
    connect = {"elasticsearch": connect_ltr, "opensearch": connect_ltr, "solr": connect_solr, "vespa": connect_vespa}
    with connect[options.engine](options, document["features"], export) as score:
        try:
            return {number: score(document["rows"][number]) for number in rows}
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise Refused(
                f"{options.engine} gave no score ({type(error).__name__}: {error}). Is there a document to score?"
            ) from None


def compare(document: dict[str, Any], got: dict[int, float], tolerance: float) -> int:
    """Print the largest difference and the rankings that changed; 0 if there are none."""
    expected = {number: document["expected"][number] for number in got}
    scale = max(1.0, max(map(abs, expected.values())))
    # A score that is not a number differs by as much as there is.
    off = max(
        abs(got[number] - score) if got[number] == got[number] else float("inf") for number, score in expected.items()
    )
    lists: dict[int, list[int]] = {}
    for number in got:
        lists.setdefault(document["lists"][number], []).append(number)
    changed = sum(
        any(expected[a] - expected[b] > tolerance * scale and got[a] < got[b] for a in mine for b in mine)
        for mine in lists.values()
    )
    print(f"{len(got)} rows: largest difference {off:.3g} ({off / scale:.3g} of the largest score), ", end="")
    print(f"{changed} of {len(lists)} rankings changed.")
    return int(off > tolerance * scale or changed > 0)


@contextlib.contextmanager
def connect_ltr(options: argparse.Namespace, features: list[str], export: dict[str, Any]) -> Any:
    """The Learning to Rank plugin of Elasticsearch or OpenSearch: features as derived expressions of parameters."""
    url = options.url.rstrip("/")
    derived = [
        {"name": name, "params": [f"f{i}"], "template_language": "derived_expression", "template": f"f{i}"}
        for i, name in enumerate(features)
    ]
    body = {"model": {**export["model"], "name": SCRATCH}}

    def clear() -> None:
        for path in (SCRATCH, f"_ltr/_model/{SCRATCH}", f"_ltr/_featureset/{SCRATCH}"):
            quietly("DELETE", f"{url}/{path}")

    def score(row: Row) -> float:
        model = {"sltr": {"model": SCRATCH, "params": {f"f{i}": value for i, value in enumerate(row)}}}
        rescore = {"query": {"rescore_query": model, "query_weight": 0, "rescore_query_weight": 1}, "window_size": 1}
        answer = send("POST", f"{url}/{SCRATCH}/_search", {"query": {"match_all": {}}, "rescore": rescore})
        return float(answer["hits"]["hits"][0]["_score"])

    clear()
    quietly("PUT", f"{url}/_ltr")
    try:
        send("PUT", f"{url}/{SCRATCH}/_doc/1?refresh=true", {"empty": True})
        send("POST", f"{url}/_ltr/_featureset/{SCRATCH}", {"featureset": {"name": SCRATCH, "features": derived}})
        send("POST", f"{url}/_ltr/_featureset/{SCRATCH}/_createmodel", body)
        yield score
    finally:
        clear()


@contextlib.contextmanager
def connect_solr(options: argparse.Namespace, features: list[str], export: dict[str, Any]) -> Any:
    """Solr's LTR module: features as ValueFeature of external feature information (efi)."""
    core = f"{options.url.rstrip('/')}/solr/{options.collection}"
    kind = "org.apache.solr.ltr.feature.ValueFeature"
    store = [
        {"store": SCRATCH, "name": name, "class": kind, "params": {"value": f"${{f{i}}}", "required": False}}
        for i, name in enumerate(features)
    ]

    def clear() -> None:
        quietly("DELETE", f"{core}/schema/model-store/{SCRATCH}")
        quietly("DELETE", f"{core}/schema/feature-store/{SCRATCH}")

    def score(row: Row) -> float:
        values = " ".join(f"efi.f{i}={value!r}" for i, value in enumerate(row))
        query = {"q": "*:*", "rows": 1, "fl": "score", "rq": f"{{!ltr model={SCRATCH} reRankDocs=1 {values}}}"}
        answer = send("POST", f"{core}/select", urllib.parse.urlencode(query), "application/x-www-form-urlencoded")
        return float(answer["response"]["docs"][0]["score"])

    clear()
    try:
        send("PUT", f"{core}/schema/feature-store", store)
        send("PUT", f"{core}/schema/model-store", {**export, "name": SCRATCH, "store": SCRATCH})
        yield score
    finally:
        clear()


@contextlib.contextmanager
def connect_vespa(options: argparse.Namespace, features: list[str], export: dict[str, Any]) -> Any:
    """The application that --prepare wrote: the model over inputs query(f0), query(f1), …"""
    url = options.url.rstrip("/")
    send("POST", f"{url}/document/v1/parity/parity/docid/1", {"fields": {"id": "1"}})

    def score(row: Row) -> float:
        inputs = {f"input.query(f{i})": value for i, value in enumerate(row)}
        query = {"yql": "select * from parity where true", "ranking.profile": "parity", **inputs}
        return float(send("POST", f"{url}/search/", query)["root"]["children"][0]["relevance"])

    yield score


def prepare_vespa(folder: Path, export: dict[str, Any], count: int) -> None:
    """Write an application package whose only rank profile runs the model over query inputs."""
    for part in ("schemas", "models"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    inputs = "\n".join(f"            query(f{i}) double: 0" for i in range(count))
    renamed = {**export, "feature_names": [f"query(f{i})" for i in range(count)]}
    (folder / "models/parity.json").write_text(json.dumps(renamed), encoding="utf-8")
    (folder / "schemas/parity.sd").write_text(
        "schema parity {\n    document parity {\n        field id type string { indexing: attribute }\n    }\n"
        f"    rank-profile parity {{\n        inputs {{\n{inputs}\n        }}\n"
        '        first-phase {\n            expression: lightgbm("parity.json")\n        }\n    }\n}\n',
        encoding="utf-8",
    )
    (folder / "services.xml").write_text(
        '<services version="1.0">\n  <container id="default" version="1.0">\n    <search/>\n    <document-api/>\n'
        '  </container>\n  <content id="parity" version="1.0">\n    <min-redundancy>1</min-redundancy>\n'
        '    <documents><document type="parity" mode="index"/></documents>\n'
        '    <nodes><node distribution-key="0"/></nodes>\n  </content>\n</services>\n',
        encoding="utf-8",
    )


def send(method: str, url: str, body: Any = None, kind: str = "application/json") -> Any:
    data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    headers, parts = {"Content-Type": kind}, urllib.parse.urlsplit(url)
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read().decode()
    return json.loads(text) if text else {}


def quietly(method: str, url: str) -> None:
    """For what may or may not be there already."""
    with contextlib.suppress(urllib.error.HTTPError):
        send(method, url)


if __name__ == "__main__":
    sys.exit(main())
