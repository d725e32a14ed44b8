#!/usr/bin/env python3
"""Harness for Arm Ethos-U (docs/harness.md): qdq_to_tflite.py, vela, and a lab's own runner.

Options of the board (each a command; words in braces are replaced):
  x.converter  from the quantized ONNX file to TFLite: "convert {onnx} {tflite}"
               [qdq_to_tflite.py beside this file, which keeps integers and scales]
  x.vela       the compiler [vela]
  x.vela_args  its arguments ["--accelerator-config ethos-u55-128"]
  x.runner     runs a model: "runner {model} {inputs} {outputs}"; prints INFERENCE_MS x for each
               inference and leaves one .npy file for each output in {outputs}, named 0.npy, 1.npy
"""
import csv
import glob
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys


class Failure(Exception):
    def __init__(self, reason, message):
        super().__init__(message)
        self.reason = reason


def option(request, name, otherwise=""):
    return request["board"]["options"].get(name, otherwise)


def execute(command, reason, **words):
    arguments = [word.format(**words) for word in shlex.split(command)]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    print(done.stdout, end="")
    if done.returncode != 0:
        raise Failure(reason, f"{arguments[0]} ended with status {done.returncode}: "
                      + " | ".join(done.stdout.splitlines()[-2:]))
    return done.stdout


def converter(request):
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "qdq_to_tflite.py")
    return option(request, "converter") or shlex.join([sys.executable, own]) + " {onnx} {tflite}"


def missing_packages():
    """Of what the converter beside this file needs."""
    needs = {"onnx": "onnx", "numpy": "numpy", "flatbuffers": "flatbuffers",
             "ai_edge_litert": "ai-edge-litert"}
    return [package for module, package in needs.items() if importlib.util.find_spec(module) is None]


def probe(request):
    absent = []
    vela = option(request, "vela", "vela")
    if shutil.which(vela) is None:
        absent.append(f"compile: {vela} is not there (pip install ethos-u-vela)")
    elif not option(request, "converter") and missing_packages():
        absent.append("compile: the converter needs " + ", ".join(missing_packages())
                      + " (pip install), or name another one with x.converter")
    if not option(request, "runner"):
        absent.append("exec: no runner for the board (option x.runner)")
    can = [] if any(text.startswith("compile") for text in absent) else ["compile"]
    if not any(text.startswith("exec") for text in absent):
        can.append("run")
    return {"can": can, "schemes": ["W8-A8", "W8-A16"], "absent": absent, "runs_compiled": True}


def health(request):
    found = probe(request)
    if not found["can"]:
        raise Failure("BOARD_FAILED", "; ".join(found["absent"]))
    return {"detail": "can " + " and ".join(found["can"])}


def compile_model(request):
    folder = request["output_dir"]
    tflite = os.path.join(folder, request["key"] + ".tflite")
    execute(converter(request), "COMPILE_FAILED", onnx=request["model"], tflite=tflite)
    if not os.path.exists(tflite):
        raise Failure("COMPILE_FAILED", "the converter left no TFLite file")
    arguments = option(request, "vela_args", "--accelerator-config ethos-u55-128")
    text = execute(f"{option(request, 'vela', 'vela')} {arguments} --output-dir {{folder}} {{tflite}}",
                   "COMPILE_FAILED", folder=folder, tflite=tflite)
    facts = {}
    for summary in glob.glob(os.path.join(folder, "*_summary_*.csv")):
        with open(summary, encoding="utf-8") as file:
            for row in csv.DictReader(file):
                facts.update({key: row[key] for key in ("accelerator_configuration", "cycles_total",
                                                        "sram_memory_used", "inference_time")
                              if key in row})
    return {"facts": facts, **offload(text)}


def offload(text):
    """What vela says about the operators that it left on the CPU."""
    found = {unit: int(count)
             for unit, count in re.findall(r"^(CPU|NPU) operators = (\d+)", text, re.M)}
    if len(found) < 2:
        return {}
    total = found["CPU"] + found["NPU"]
    part = {"operators": total, "operators_offloaded": found["NPU"],
            "operators_percent": 100 * found["NPU"] / max(total, 1)}
    if found["CPU"] == 0:
        part["gops_percent"] = 100
    return {"offload": part}


def run(request):
    models = glob.glob(os.path.join(request.get("compiled", ""), "*_vela.tflite"))
    if not models:
        raise Failure("NOT_AVAILABLE", "vela left no model to run")
    folder = request["output_dir"]
    inputs = os.path.dirname(request["inputs"][0]["file"])
    text = execute(option(request, "runner"), "BOARD_FAILED", model=models[0], inputs=inputs,
                   outputs=folder)
    samples = [float(value) for value in re.findall(r"^INFERENCE_MS ([0-9.]+)$", text, re.M)]
    if not samples:
        raise Failure("BOARD_FAILED", "the runner printed no INFERENCE_MS")
    outputs = [{"name": name, "file": os.path.join(folder, f"{index}.npy")}
               for index, name in enumerate(request["output_names"])]
    return {"outputs": outputs, "samples_ms": samples, "conditions": {"tool": "x.runner"}}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    actions = {"probe": probe, "health": health, "compile": compile_model, "run": run}
    try:
        response = {"schema": 1, "ok": True, **actions[request["action"]](request)}
    except Failure as failure:
        response = {"schema": 1, "ok": False, "reason": failure.reason, "message": str(failure)}
    with open(request["response"] + ".part", "w", encoding="utf-8") as file:
        json.dump(response, file)
    os.replace(request["response"] + ".part", request["response"])


if __name__ == "__main__":
    main()
