"""The JSON Schemas in the package are those of the types, and what commands print fits them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sidecar.__main__ import main
from sidecar.cli.json_schemas import DIALECT, FOLDER, SCHEMAS, schema_text
from state import codec
from tests.cli.test_commands import BUSY, leave
from tests.cli.top.statuses import owner, plain_one, seen

KINDS: dict[str, Any] = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}


def unfit(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str = "") -> list[str]:
    """Return where a value does not fit a schema, as far as these schemas go."""
    if "$ref" in schema:
        return unfit(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, at)
    if "anyOf" in schema:
        return [] if any(not unfit(value, each, root, at) for each in schema["anyOf"]) else [f"{at}: fits none"]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{at}: {value!r} is none of {schema['enum']}"]
    match schema.get("type"):
        case "array":
            items = value if isinstance(value, list) else [object()]
            return [flaw for n, each in enumerate(items) for flaw in unfit(each, schema["items"], root, f"{at}[{n}]")]
        case "object" if isinstance(value, dict):
            fields = schema.get("properties", {})
            missing = [f"{at}.{name} is missing" for name in schema.get("required", ()) if name not in value]
            extra = [f"{at}.{name} is not described" for name in value if fields and name not in fields]
            inner = [
                flaw
                for name in fields.keys() & value
                for flaw in unfit(value[name], fields[name], root, f"{at}.{name}")
            ]
            return [*missing, *extra, *inner]
        case None:
            return []
        case kind:
            is_kind = (
                kind in KINDS and isinstance(value, KINDS[kind]) and (kind == "boolean") is isinstance(value, bool)
            )
            is_like = not isinstance(value, str) or re.search(schema.get("pattern", ""), value)
            return [] if is_kind and is_like else [f"{at}: {value!r} is no {kind}"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_file_is_the_schema_of_its_type(name: str) -> None:
    """`make schemas` writes them."""
    assert (FOLDER / f"{name}.schema.json").read_text() == schema_text(name)
    assert json.loads(schema_text(name))["$schema"] == DIALECT


def test_there_is_no_other_file() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(f"{name}.schema.json" for name in SCHEMAS)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("status", ["status", "--json"]),
        ("status", ["top", "--once", "--json"]),
        ("problems", ["status", "--problems", "--json"]),
        ("explain", ["explain", "web", "--json"]),
        ("explain", ["explain", "1", "--json"]),
        ("plan", ["plan", "--cpus", "1", "--json", "--empty", "--policy", "static", "--reserved", "0"]),
        ("topology", ["topology", "--json"]),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else each,
)
def test_what_a_command_prints_fits_its_schema(
    name: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every field is described, and each is there."""
    leave(tmp_path, BUSY)
    main([*command, *([] if command[0] == "topology" else ["--state-dir", str(tmp_path)])])
    schema = json.loads(schema_text(name))
    assert unfit(json.loads(capsys.readouterr().out), schema, schema) == []


def test_a_history_fits_its_schema() -> None:
    """As the API answers it."""
    schema = json.loads(schema_text("history"))
    told = json.loads(codec.encode(seen(owner("a", "1-2", 1), plain_one("b", 2)).history))
    assert unfit(told, schema, schema) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [("policy", 3), ("version", "1"), ("is_ready", 1), ("shared", "no list"), ("containers", {}), ("more", 1)],
)
def test_what_does_not_fit_is_found(
    place: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another type, a text that is no CPU list, a field that is not described, and one that is missing."""
    leave(tmp_path, BUSY)
    main(["status", "--json", "--state-dir", str(tmp_path)])
    told = json.loads(capsys.readouterr().out)
    schema = json.loads(schema_text("status"))
    assert unfit({**told, place: value}, schema, schema) != []
    assert unfit({key: each for key, each in told.items() if key != place}, schema, schema) != [] or place == "more"


def test_a_schema_is_printed_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    """As it is in the package; an unknown name is told with the known ones."""
    assert main(["help", "--schema", "status"]) == 0
    assert capsys.readouterr().out == schema_text("status")
    with pytest.raises(SystemExit):
        main(["help", "--schema", "stat"])
    assert "did you mean 'state'?" in capsys.readouterr().err
