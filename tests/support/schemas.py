"""Whether what is printed as JSON fits its schema in the package, as far as these schemas go."""

from __future__ import annotations

import json
import re
from typing import Any

from sidecar.cli.json_schemas import FOLDER

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
            is_open = schema.get("additionalProperties") is True
            extra = [f"{at}.{name} is not described" for name in value if fields and name not in fields and not is_open]
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


def misfits(name: str, document: str | bytes) -> list[str]:
    """Return where a document does not fit the schema of this name."""
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
    return unfit(json.loads(document), schema, schema)
