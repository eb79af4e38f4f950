#!/usr/bin/env python3
"""Makes muniment_client/document.py of the OpenAPI document of a service:

    generate.py URL            writes it
    generate.py URL --check    fails if it is not that of the document

Left out is what the client has no use for: operations outside of /v1, and the envelopes of answers.
"""
import json
import keyword
import re
import sys
import textwrap
import urllib.request
from pathlib import Path

FILE = Path(__file__).parent / "muniment_client" / "document.py"
PREFIX = "#/components/schemas/"
NUMBERS = {"integer": "int", "number": "float", "boolean": "bool", "string": "str", "null": "None", "object": "dict[str, Any]"}


class Writer:
    def __init__(self, document):
        self.schemas = document["components"]["schemas"]
        self.written = {}

    def type_of(self, schema):
        if "$ref" in schema:
            return self.reach(schema["$ref"].removeprefix(PREFIX))
        if "enum" in schema and all(isinstance(v, str) for v in schema["enum"]):
            words = ", ".join(json.dumps(v) for v in schema["enum"])
            return f"Literal[{words}]" + (" | None" if "null" in schema.get("type", ()) else "")
        for union in ("oneOf", "anyOf"):
            if union in schema:
                return " | ".join(dict.fromkeys(self.type_of(s) for s in schema[union]))
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not kinds:
            return "Any"
        return " | ".join(self.kind_of(kind, schema) for kind in kinds)

    def kind_of(self, kind, schema):
        more = schema.get("additionalProperties")
        if kind == "array":
            return f"list[{self.type_of(schema['items'])}]"
        if kind == "object" and isinstance(more, dict) and more:
            return f"dict[str, {self.type_of(more)}]"
        return NUMBERS[kind]

    def reach(self, name):
        if name not in self.written:
            self.written[name] = ""
            schema = self.schemas[name]
            if "properties" in schema:
                self.written[name] = self.record(name, schema)
            else:
                self.written[name] = f"{name} = {self.type_of(schema)}\n"
        return f'"{name}"' if self.written[name] == "" else name

    def record(self, name, schema):
        required = schema.get("required", [])
        members = []
        for member, of in sorted(schema["properties"].items()):
            kind = self.type_of(of)
            members.append((member, kind if member in required else f"NotRequired[{kind}]", of.get("description", "")))
        return typed_dict(name, schema.get("description", ""), members)

    def query(self, operation):
        name = re.sub(r"(?:^|-)(\w)", lambda m: m[1].upper(), operation["operationId"]) + "Query"
        members = [
            (p["name"], f"{self.type_of(p['schema'])}" if p.get("required") else f"NotRequired[{self.type_of(p['schema'])}]", p.get("description", ""))
            for p in operation.get("parameters", []) if p["in"] == "query"
        ]
        if members:
            self.written[name] = typed_dict(name, "", members)


def comment(text, indent):
    line = " ".join(text.split())
    return "".join(f"{indent}# {part}\n" for part in textwrap.wrap(line, 110)) if line else ""


def typed_dict(name, about, members):
    above = comment(about, "")
    if any(keyword.iskeyword(member) for member, _, _ in members):
        body = "".join(f"{comment(doc, '    ')}    {json.dumps(member)}: {kind!r},\n" for member, kind, doc in members)
        return f"{above}{name} = TypedDict({json.dumps(name)}, {{\n{body}}})\n"
    body = "".join(f"{comment(doc, '    ')}    {member}: {kind}\n" for member, kind, doc in members)
    return f"{above}class {name}(TypedDict):\n{body or '    pass' + chr(10)}"


def written(document):
    w = Writer(document)
    for path, item in sorted(document["paths"].items()):
        if path != "/v1" and not path.startswith("/v1/"):
            continue
        for method, operation in sorted(item.items()):
            w.query(operation)
            for media in operation.get("requestBody", {}).get("content", {}).values():
                if "$ref" in media.get("schema", {}):
                    w.type_of(media["schema"])
            answer = operation["responses"]["200"].get("content", {}).get("application/json", {}).get("schema")
            if answer:
                envelope = w.schemas[answer["$ref"].removeprefix(PREFIX)]
                w.type_of(envelope["properties"]["data"])
    for name in ("Violation", "ValidationError"):
        w.reach(name)
    head = '"""Types of requests and answers. Made by generate.py of a service\'s /openapi.json: do not edit."""\n' \
        "from __future__ import annotations\n\nfrom typing import Any, Literal, NotRequired, TypedDict\n"
    return head + "".join(f"\n\n{text}" for _, text in sorted(w.written.items()))


def main():
    with urllib.request.urlopen(sys.argv[1] + "/openapi.json", timeout=60) as answer:
        text = written(json.load(answer))
    if sys.argv[2:] != ["--check"]:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        sys.exit(f"{FILE.name} is not that of the document: generate.py {sys.argv[1]} makes it anew")


if __name__ == "__main__":
    main()
