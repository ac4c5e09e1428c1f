"""The JSON Schema of the report, made from its types.

``python -m ddpcheck.report_schema > reports/schema/report-1.schema.json`` writes it anew.
"""

import inspect
import sys
from typing import Any

import msgspec

from ddpcheck.report import FORMAT_VERSION, Report

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def report_schema() -> dict[str, Any]:
    """Return the schema of report.json; fields that a newer version adds are allowed by it."""
    schema = _tidy(msgspec.json.schema(Report))
    report = schema["$defs"]["Report"]
    # What it stands for are the fields of a newer version, which lie beside the others.
    del report["properties"]["later"]
    report["properties"]["format_version"] = {"type": "integer", "const": FORMAT_VERSION}
    report["required"] = ["format_version", *report["required"]]
    title = f"ddpcheck report, format version {FORMAT_VERSION}"
    return {"$schema": DIALECT, **schema, "title": title}


def schema_text() -> bytes:
    """Return the schema as it is published, ending with a newline."""
    return msgspec.json.format(msgspec.json.encode(report_schema()), indent=1) + b"\n"


def _tidy(value: Any) -> Any:
    """Return the schema with docstrings as they read, not as they are indented."""
    if isinstance(value, dict):
        return {
            name: inspect.cleandoc(each)
            if name == "description" and isinstance(each, str)
            else _tidy(each)
            for name, each in value.items()
        }
    return [_tidy(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.stdout.buffer.write(schema_text())
