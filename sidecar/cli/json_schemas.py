"""JSON Schemas of what commands print with `--json`, made from the types that they print.

The package has them as files, so that no program needs Python to read them. `python -m sidecar.cli.json_schemas` makes
the files, and a test compares. What a schema requires is always there; later versions may add fields.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_args, get_origin

from msgspec import NODEFAULT
from msgspec import inspect as shapes

from sidecar.api.documents import Defragmented, Sizing
from sidecar.cli.doctor.host_checks import Finding
from sidecar.cli.setup.cmd_swarm import Advertised
from sidecar.cli.setup.install_arguments import Done
from sidecar.disturbance.disturbance_report import DisturberLine, Report
from sidecar.disturbance.remedies import QuietReport
from sidecar.kubelet.kubelet_state import KubeletState
from sidecar.simulation.happenings import Frame, Happening
from sidecar.status.cpu_view import CPUView
from sidecar.status.event_file import RecordedEvent
from sidecar.status.grant_history import GrantHistory
from sidecar.status.last_state import ContainerReading, StatusReading
from sidecar.status.machine_levels import WholeMachine
from sidecar.status.planned_requests import Plan
from sidecar.status.problem_list import Problem
from state.ack import WrittenAck
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import State
from state.projection import Projection, Reading

FOLDER: Final = Path(__file__).parent / "schemas"

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

SCHEMAS: Final[Mapping[str, Any]] = {
    "status": StatusReading,
    "problems": list[Problem],
    "explain": CPUView | ContainerReading,
    "plan": Plan | Defragmented,
    "topology": WholeMachine,
    "disturbed": Report,
    "disturber": DisturberLine,
    "resize": Sizing,
    "defragment": Defragmented,
    "state": State | KubeletState,
    "doctor": list[Finding],
    "doctor-quiet": QuietReport,
    "swarm": Advertised,
    "install": Done,
    "ack": WrittenAck,
    "event": RecordedEvent,
    "happening": Happening | Frame,
    "reading": Reading,
    "projection": Projection,
    "history": GrantHistory,
}
"""Each schema and its type. `top` prints the status, `simulate` happenings, `watch` readings, `plan --defragment` what
would be moved; programs also read a `history` and a `projection`.
"""

_OPEN: Final = (RecordedEvent,)
"""Types with other fields, which differ."""

_TEXTS: Final[Mapping[type, Mapping[str, str]]] = {
    CPUSet: {"type": "string", "description": "A CPU list, as the kernel writes it: 0-3,8", "pattern": "^[0-9,-]*$"},
    ContainerKey: {"type": "string", "description": "The engine's name and the id: docker:6f0c..."},
}
"""Types that are written as text."""


def schema_of(wanted: Any) -> dict[str, Any]:
    """Return the schema of a type."""
    definitions: dict[str, Any] = {}
    if get_origin(wanted) is types.UnionType:
        shape: dict[str, Any] = {"anyOf": [_described(shapes.type_info(one), definitions) for one in get_args(wanted)]}
    else:
        shape = _described(shapes.type_info(wanted), definitions)
    return {"$schema": DIALECT, **shape, "$defs": dict(sorted(definitions.items()))}


def schema_text(name: str) -> str:
    """Return the file of a schema."""
    return json.dumps(schema_of(SCHEMAS[name]), indent=1, ensure_ascii=False) + "\n"


def _described(shape: shapes.Type, definitions: dict[str, Any]) -> dict[str, Any]:
    match shape:
        case shapes.StructType():
            _define(shape, definitions)
            return {"$ref": f"#/$defs/{shape.cls.__name__}"}
        case shapes.CustomType(cls=cls):
            return dict(_TEXTS[cls])
        case shapes.EnumType(cls=cls):
            return {"enum": [each.value for each in cls]}
        case shapes.LiteralType(values=values):
            return {"enum": list(values)}
        case shapes.UnionType(types=kinds):
            return {"anyOf": [_described(each, definitions) for each in kinds]}
        case shapes.VarTupleType(item_type=item) | shapes.ListType(item_type=item) | shapes.SetType(item_type=item):
            return {"type": "array", "items": _described(item, definitions)}
        case shapes.FrozenSetType(item_type=item):
            return {"type": "array", "items": _described(item, definitions)}
        case shapes.TupleType(item_types=kinds):
            items = [_described(each, definitions) for each in kinds]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        case shapes.DictType(value_type=value):
            return {"type": "object", "additionalProperties": _described(value, definitions)}
        case shapes.AnyType():
            return {}
        case _:
            return {"type": _PLAIN[type(shape)]}


_PLAIN: Final[Mapping[type[shapes.Type], str]] = {
    shapes.StrType: "string",
    shapes.IntType: "integer",
    shapes.FloatType: "number",
    shapes.BoolType: "boolean",
    shapes.NoneType: "null",
}


def _define(shape: shapes.StructType, definitions: dict[str, Any]) -> None:
    name = shape.cls.__name__
    if name in definitions:
        return
    definitions[name] = {}
    fields = {field.encode_name: _described(field.type, definitions) for field in shape.fields}
    if shape.tag_field:
        fields = {shape.tag_field: {"const": shape.tag}, **fields}
    said = " ".join(inspect.cleandoc(shape.cls.__doc__ or "").split("\n\n")[0].split())
    # One that may be unset has no value that stands for it.
    unset = {
        field.encode_name
        for field in shape.fields
        if not field.required and field.default is field.default_factory is NODEFAULT
    }
    if shape.cls.__struct_config__.omit_defaults:
        unset = {field.encode_name for field in shape.fields if not field.required}
    required = sorted(fields.keys() - unset)
    definitions[name] = {"type": "object", "description": said, "properties": fields, "required": required}
    if shape.cls in _OPEN:
        definitions[name]["additionalProperties"] = True


def main() -> None:
    """Write all files."""
    FOLDER.mkdir(exist_ok=True)
    for name in SCHEMAS:
        (FOLDER / f"{name}.schema.json").write_text(schema_text(name))


if __name__ == "__main__":
    main()
