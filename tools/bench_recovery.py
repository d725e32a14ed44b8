"""`tools/bench recovery`: what accuracy recovery wins on real models, output by output, and what it costs.

For each model one quantization without recovery and one with it, both measured on the first 64 evaluation
samples by gq-worker, which runs the emitted file with Q/DQ in float arithmetic and one thread. Seconds are
those of the whole `quantize` process without an evaluation, on --threads threads. The figures of Quark 0.13 and
ONNX Runtime (SNR in dB and, for classes, agreement in percent) were measured on the same samples after the
models were converted to opset 17 and pinned; they are of the output that OUTPUTS names.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

SAMPLES = 64
FLAGS = {"ppocr_cls": ["--input-shape", "x=1x3x48x192"]}
# Position of the output that the figures of others are of; 0 where it is not listed.
OUTPUTS = {"mlsd_tiny_320": 1}
# Quark VINT8 plain, Quark VINT8 NPU path, Quark A8W8, ONNX Runtime MinMax per channel, its percentile.
OTHERS = {
    "efficientnet_lite0": (1.7, 2.1, 5.6, 17.4, 17.6),
    "ppocrv4_det": (2.7, 3.1, 4.9, 4.3, 6.7),
    "ppocr_cls": (12.6, 21.6, 22.4, 16.4, 22.7),
    "blazeface_front_128": (19.8, 2.3, 20.5, 26.8, 27.1),
    "mlsd_tiny_320": (-5.3, -5.3, -1.0, 6.5, 6.5),
    "minilm_l3": (1.1, 1.1, 2.7, 4.3, None),
    "esrgan_slim_x2": (38.4, 38.3, 39.8, 41.4, 42.2),
    "ppocrv4_rec": (1.6, 0.8, 3.2, 5.5, 6.7),
    "silero_vad_16k": (2.4, 2.7, 1.8, 9.6, 9.7),
    "basic_pitch_nmp": (8.8, 4.0, 7.5, None, None),
}
LIMIT_S = 60
SCATTER_DB = 0.3  # what an output may lose against the quantization without recovery


def number(value):
    return float(value) if isinstance(value, str) else value


def worker(arguments, name, verb, more):
    """One run of gq-worker; returns its report, wall and CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "r.json")
        command = [os.path.join(arguments.bin, "gq-worker"), verb, "--report", report, "--quiet", "--threads",
                   str(arguments.threads), *FLAGS.get(name, []), *more]
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 10):
            print(f"bench: gq-worker ended with {done.returncode} on {name}:\n{done.stdout[-800:]}", file=sys.stderr)
            sys.exit(2)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        with open(report, encoding="utf-8") as file:
            return json.load(file), round(wall, 1), round(cpu, 1)


def quantized(arguments, name, recover, folder):
    model = os.path.join(arguments.models, name, "model.onnx")
    data = os.path.join(arguments.data, name)
    output = os.path.join(folder, f"{name}.onnx")
    more = ["--model", model, "--scheme", arguments.scheme, "--calibration-data", os.path.join(data, "calib"),
            "--output", output]
    report, wall, cpu = worker(arguments, name, "quantize", more + (["--recover", "none"] if not recover else []))
    samples = [os.path.join(data, "eval", file) for file in sorted(os.listdir(os.path.join(data, "eval")))[:SAMPLES]]
    figures = worker(arguments, name, "evaluate", ["--model", output, "--reference", model, "--evaluation-data",
                                                   *samples])[0]["evaluate"]
    outputs = [{"name": o["name"], "snr_db": round(number(o["snr_db"]), 2),
                **({"agreement": round(number(o["argmax_agreement"]), 1)} if "argmax_agreement" in o else {})}
               for o in figures["outputs"] if o["dtype"].startswith("float")]
    return report, outputs, wall, cpu


def measure(arguments, name):
    with tempfile.TemporaryDirectory() as folder:
        before = quantized(arguments, name, False, folder)[1]
        report, after, wall, cpu = quantized(arguments, name, True, folder)
    row = {"model": name, "scheme": arguments.scheme, "outputs": after, "wall_s": wall, "cpu_s": cpu, "passes": {}}
    for output, plain in zip(row["outputs"], before):
        output["without_db"] = plain["snr_db"]
        if "agreement" in plain:
            output["without_agreement"] = plain["agreement"]
    recovery = report["graph_quantize"].get("recovery", {})
    for one in recovery.get("passes", []):
        if one.get("changed"):
            row["passes"][one["name"]] = {"gain_db": round(number(one["gain_db"]), 2),
                                          "standard_error_db": round(number(one.get("standard_error_db", 0)), 2),
                                          "kept": one["kept"], "seconds": round(one.get("seconds", 0), 1)}
    return row


def targets_of(rows, scheme):
    targets = []

    def add(name, figure, wanted, met):
        targets.append({"target": name, "figure": figure, "wanted": wanted, "met": bool(met)})

    over_quark = []
    for row in rows:
        name = row["model"]
        worst = min(output["snr_db"] - output["without_db"] for output in row["outputs"])
        add(f"{name}: no output loses by recovery, least gain in dB", round(worst, 2), f">= -{SCATTER_DB}",
            worst >= -SCATTER_DB)
        if scheme == "vint8":
            add(f"{name}: wall seconds", row["wall_s"], f"<= {LIMIT_S}", row["wall_s"] <= LIMIT_S)
        others = OTHERS.get(name)
        if others is None:
            continue
        snr = row["outputs"][OUTPUTS.get(name, 0)]["snr_db"]
        if scheme == "vint8":
            over_quark.append(round(snr - max(others[:2]), 2))
            add(f"{name}: dB over the better VINT8 of Quark", over_quark[-1], ">= 0", over_quark[-1] >= 0)
        else:
            best = max(value for value in others[3:] + (-99,) if value is not None)
            add(f"{name}: dB over the better of ONNX Runtime", round(snr - best, 2), ">= 0", snr >= best)
        if name == "efficientnet_lite0" and scheme == "vint8":
            agreement = row["outputs"][0].get("agreement", 0)
            add(f"{name}: dB over the better VINT8 of Quark", over_quark[-1], ">= 9", over_quark[-1] >= 9)
            add(f"{name}: agreement in percent", agreement, ">= 80", agreement >= 80)
    if over_quark:
        median = round(statistics.median(over_quark), 2)
        add("median over the better VINT8 of Quark, dB", median, ">= 6", median >= 6)
    return targets


def show(row):
    print(f"{row['model']}: {row['wall_s']} s, {row['cpu_s']} CPU s")
    for output in row["outputs"]:
        classes = f", {output['without_agreement']} -> {output['agreement']} %" if "agreement" in output else ""
        print(f"  {output['name']:<40} {output['without_db']:7.2f} -> {output['snr_db']:7.2f} dB{classes}")
    for name, one in row["passes"].items():
        print(f"    {name:<12} {one['gain_db']:6.2f} +- {one['standard_error_db']:.2f} dB held out, "
              f"{'kept' if one['kept'] else 'not kept'}, {one['seconds']} s")
    sys.stdout.flush()


def recovery(arguments):
    rows = []
    for name in arguments.model or sorted(os.listdir(arguments.models)):
        if not os.path.exists(os.path.join(arguments.models, name, "model.onnx")):
            print(f"bench: {name} is not in {arguments.models}: run tools/fetch-models", file=sys.stderr)
            sys.exit(2)
        rows.append(measure(arguments, name))
        if arguments.json:
            print(json.dumps(rows[-1]), flush=True)
        else:
            show(rows[-1])
    targets = targets_of(rows, arguments.scheme)
    met = all(target["met"] for target in targets)
    if arguments.json:
        print(json.dumps({"targets": targets, "all_targets_met": met}))
        return
    for target in targets:
        print(f"{'met   ' if target['met'] else 'MISSED'} {target['target']}: {target['figure']} (wanted {target['wanted']})")
