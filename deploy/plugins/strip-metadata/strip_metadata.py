#!/usr/bin/env python3
"""Example plugin (docs/plugins.md): drops the fields of an ONNX file that only tell its origin.

Needs Python only. An ONNX file is one protobuf message; the fields of its outermost level are
copied one by one, but for producer_name (2), producer_version (3), domain (4), doc_string (6) and
metadata_props (14).
"""
import json
import os
import sys

DROPPED = {2: "producer_name", 3: "producer_version", 4: "domain", 6: "doc_string",
           14: "metadata_props"}


class Failure(Exception):
    pass


def read_varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Failure("the model is no ONNX file")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """Number and extent of each field of a message."""
    at = 0
    while at < len(data):
        start = at
        tag, at = read_varint(data, at)
        wire = tag & 7
        if wire == 0:
            _, at = read_varint(data, at)
        elif wire == 1:
            at += 8
        elif wire == 2:
            size, at = read_varint(data, at)
            at += size
        elif wire == 5:
            at += 4
        else:
            raise Failure("the model is no ONNX file")
        if at > len(data):
            raise Failure("the model is cut off")
        yield tag >> 3, start, at


def apply(request):
    with open(request["model"], "rb") as file:
        data = file.read()
    kept, dropped = [], []
    for number, start, end in fields(data):
        if number in DROPPED:
            dropped.append(DROPPED[number])
        else:
            kept.append(data[start:end])
    with open(request["output"], "wb") as file:
        file.write(b"".join(kept))
    names = ", ".join(sorted(set(dropped))) or "nothing"
    return {"changed": len(dropped), "detail": f"removed {names}"}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    try:
        response = {"schema": 1, "ok": True, **apply(request)}
    except (Failure, OSError) as failure:
        response = {"schema": 1, "ok": False, "reason": "MODEL_INVALID", "message": str(failure)}
    with open(request["response"] + ".part", "w", encoding="utf-8") as file:
        json.dump(response, file)
    os.replace(request["response"] + ".part", request["response"])


if __name__ == "__main__":
    main()
