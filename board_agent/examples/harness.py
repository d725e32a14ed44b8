#!/usr/bin/env python3
"""Example harness for the backend `command` (docs/harness.md).

It drives no hardware: compile and run go to `gq-agent harness`, which speaks the same contract with
ONNX Runtime. Put your own compiler into compile(), your own board into run() and health().

  gq-agent serve --server unix:/var/lib/gq/gq.sock --backend command --board bench-7 \\
    --device xnnpack-bench --board-option "command=/opt/lab/harness.py" \\
    --board-option x.gq_agent=/usr/bin/gq-agent
"""
import json
import os
import shutil
import subprocess
import sys


class Failure(Exception):
    """A failure with a reason of docs/errors.md."""

    def __init__(self, reason, message, hint=""):
        super().__init__(message)
        self.reason, self.hint = reason, hint


def option(request, name, otherwise=""):
    return request["board"]["options"].get(name, otherwise)


def ask_gq_agent(request, action, more=None):
    """Hands a request on to `gq-agent harness` and returns its response."""
    program = option(request, "gq_agent", "gq-agent")
    inner = dict(request, action=action, response=os.path.join(request["work_dir"], "inner.json"))
    inner["runtime"] = {"threads": int(option(request, "threads", "1"))}
    inner.update(more or {})
    path = os.path.join(request["work_dir"], "inner.request.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(inner, file)
    if shutil.which(program) is None:
        raise Failure("TOOL_MISSING", f"{program} is not there", "Set the option x.gq_agent.")
    subprocess.run([program, "harness", path], check=False)
    with open(inner["response"], encoding="utf-8") as file:
        response = json.load(file)
    if not response["ok"]:
        raise Failure(response["reason"], response["message"], response.get("hint", ""))
    return response


def probe(request):
    facts = ask_gq_agent(request, "probe")
    return {
        "can": ["compile", "run"],
        "schemes": ["W8-A8", "W8-A8_dynamic", "W4-A8_dynamic"],
        "facts": {"onnxruntime_version": facts["version"]},
    }


def health(request):
    return {"detail": "ONNX Runtime " + ask_gq_agent(request, "probe")["version"] + " answers"}


def compile_model(request):
    """Here a lab's compiler would run; the example checks the model and keeps a copy of it."""
    print("checking", os.path.basename(request["model"]))
    response = ask_gq_agent(request, "compile")
    shutil.copy(request["model"], os.path.join(request["output_dir"], request["key"] + ".onnx"))
    return {"seconds": response["seconds"], "facts": {"compiler": "none (example)"}}


def run(request):
    response = ask_gq_agent(request, "run")
    keep = ("outputs", "more_outputs", "samples_ms", "setup_seconds", "conditions")
    return {key: response[key] for key in keep}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    actions = {"probe": probe, "health": health, "compile": compile_model, "run": run}
    try:
        if request["action"] not in actions:
            raise Failure("NOT_AVAILABLE", "there is no action " + request["action"])
        response = {"schema": 1, "ok": True, **actions[request["action"]](request)}
    except Failure as failure:
        response = {"schema": 1, "ok": False, "reason": failure.reason, "message": str(failure),
                    "hint": failure.hint}
    temporary = request["response"] + ".part"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(response, file)
    os.replace(temporary, request["response"])


if __name__ == "__main__":
    main()
