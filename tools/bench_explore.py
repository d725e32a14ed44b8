"""`tools/bench explore`: both searches on real models, beside a loop around Quark.

For each model: VINT8 with and without recovery, BF16, `greedy` and `sensitivity` under the same limit
with a goal that is out of reach (so that both go as far as they may), `sensitivity` at the share that
greedy ended with, and `sensitivity` with the model's own goal where it has one. SNR is that of the worst
output. Times are CPU seconds of the process, which other work on the machine disturbs least.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

DEFAULT_MODELS = ["efficientnet_lite0", "ppocr_cls", "blazeface_front_128", "silero_vad_16k"]
# What a search within the limit of 30 % has to reach.
GOALS = {"efficientnet_lite0": "top1>=97%", "ppocr_cls": "top1>=100%", "blazeface_front_128": "snr>=25"}
FLAGS = {"ppocr_cls": ["--input-shape", "x=1x3x48x192"]}
LARGER_MODEL = 30  # compute layers from which a tenth of greedy's evaluations is asked for
OUT_OF_REACH = "snr>=200"


def run(arguments, verb, name, more):
    """One run of gq-worker; returns its report and CPU seconds."""
    data = os.path.join(arguments.data, name)
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "r.json")
        command = [os.path.join(arguments.bin, "gq-worker"), verb, "--model",
                   os.path.join(arguments.models, name, "model.onnx"), "--calibration-data",
                   os.path.join(data, "calib"), "--evaluation-data", os.path.join(data, "eval"),
                   "--scheme", "vint8", "--threads", str(arguments.threads), "--report", report, "--quiet"]
        if verb != "dry-run":
            command += ["--output", os.path.join(folder, "q.onnx")]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command + FLAGS.get(name, []) + more, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 10):
            print(f"bench: gq-worker ended with {done.returncode} on {name}:\n{done.stdout[-800:]}", file=sys.stderr)
            sys.exit(2)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        with open(report, encoding="utf-8") as file:
            return json.load(file), round(cpu, 1)


def number(value):
    return float(value) if isinstance(value, str) else value


def row_of(figures):
    row = {"snr_db": round(number(figures["snr_db"]), 2), "psnr_db": round(number(figures["psnr_db"]), 2)}
    if number(figures["top1"]) >= 0:
        row["top1"] = round(number(figures["top1"]), 2)
    return row


def searched(report, cpu):
    """What the strategy itself ended with, before other candidates were compared with it."""
    explore = report["explore"]
    trace = explore["trace"]
    end = trace[explore["searched"] - 1]
    row = row_of(end["figures"])
    row.update(goal_met=end["figures"]["goal_met"], layers=end["layers"], share=round(end["share"], 4),
               compute_layers=explore["compute_layers"], full_evaluations=explore["full_evaluations"],
               sample_runs=explore["sample_runs"], seconds=round(explore["seconds"]["search"], 1),
               total_seconds=round(explore["seconds"]["total"], 1), cpu_s=cpu, borders=explore["best"]["borders"],
               stop=explore["stop"])
    return row


def candidate(report, name):
    for row in report["explore"]["trace"]:
        if row["candidate"] == name and "figures" in row:
            return row_of(row["figures"])
    return None


def bf16(arguments, name):
    report, cpu = run(arguments, "dry-run", name, ["--recover", "none"])
    outputs = [o for o in report["dry_run"]["candidates"][0]["outputs"] if o["dtype"].startswith("float")]
    row = {key: round(min(number(o[key]) for o in outputs), 2) for key in ("snr_db", "psnr_db")}
    tops = [number(o["argmax_agreement"]) for o in outputs if "argmax_agreement" in o]
    if tops:
        row["top1"] = round(min(tops), 2)
    row["dry_run_cpu_s"] = cpu
    return row


def quark_iteration(arguments, name):
    """Wall and CPU seconds of one iteration of a loop around Quark: quantize and evaluate, on the same data."""
    if not os.path.exists(arguments.peers):
        return None
    data = os.path.join(arguments.data, name)
    command = [arguments.peers_python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench_quark_loop.py"),
               os.path.abspath(arguments.peers), os.path.join(arguments.models, name, "model.onnx"),
               os.path.join(data, "calib"), os.path.join(data, "eval"), str(arguments.threads)]
    with tempfile.TemporaryDirectory() as folder:
        text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
                              cwd=folder).stdout
    for line in text.splitlines():
        if line.startswith("@@"):
            row = json.loads(line[2:])
            for unit in ("wall_s", "cpu_s"):
                row[unit] = round(row[f"quantize_{unit}"] + row[f"evaluate_{unit}"], 2)
            return row
    return None


def seconds_of_candidates(report):
    """Mean wall and CPU seconds of a candidate that greedy made and measured."""
    rows = [row for row in report["explore"]["trace"] if row["kind"] == "greedy"]
    count = max(1, len(rows))
    return {"candidate_wall_s": round(sum(row["seconds"] for row in rows) / count, 3),
            "candidate_cpu_s": round(sum(row["cpu_seconds"] for row in rows) / count, 3)}


def measure(arguments, name):
    def search(strategy, target, *limits):
        more = ["--explore-strategy", strategy, "--target-accuracy", target]
        for limit in limits:
            more += ["--explore-limit", limit]
        return run(arguments, "explore", name, more)

    greedy_report, greedy_cpu = search("greedy", OUT_OF_REACH)
    greedy = searched(greedy_report, greedy_cpu)
    row = {"model": name, "bf16": bf16(arguments, name), "vint8": candidate(greedy_report, "without recovery"),
           "vint8_recovered": candidate(greedy_report, "start"), "greedy": greedy}
    row["greedy"].update(seconds_of_candidates(greedy_report))
    row["sensitivity"] = searched(*search("sensitivity", OUT_OF_REACH))
    if greedy["layers"] == row["sensitivity"]["layers"] or greedy["layers"] == 0:
        row["sensitivity_equal_share"] = row["sensitivity"]
    else:
        row["sensitivity_equal_share"] = searched(*search("sensitivity", OUT_OF_REACH, f"max_share={greedy['share']}"))
    if name in GOALS:
        row["goal"] = GOALS[name]
        row["sensitivity_goal"] = searched(*search("sensitivity", GOALS[name]))
        row["greedy_goal"] = searched(*search("greedy", GOALS[name]))
    quark = quark_iteration(arguments, name)
    if quark is not None:
        row["quark"] = quark
        for unit in ("wall_s", "cpu_s"):
            row[f"quark_over_greedy_{unit}"] = round(quark[unit] / max(row["greedy"][f"candidate_{unit}"], 0.001), 1)
    return row


def never_worse(row):
    greedy, sensitivity = row.get("greedy_goal"), row.get("sensitivity_goal")
    if greedy is None:
        return row["sensitivity_equal_share"]["snr_db"] >= row["greedy"]["snr_db"]
    if greedy["goal_met"] != sensitivity["goal_met"]:
        return sensitivity["goal_met"]
    return not greedy["goal_met"] or sensitivity["share"] <= greedy["share"]


def targets_of(rows):
    targets = []

    def add(name, figure, wanted, met):
        targets.append({"target": name, "figure": figure, "wanted": wanted, "met": bool(met)})

    for row in rows:
        add(f"{row['model']}: sensitivity is not worse than greedy in (goal met, share)",
            [row.get("sensitivity_goal", row["sensitivity_equal_share"])[k] for k in ("goal_met", "share", "snr_db")],
            [row.get("greedy_goal", row["greedy"])[k] for k in ("goal_met", "share", "snr_db")], never_worse(row))
        if row["greedy"]["compute_layers"] >= LARGER_MODEL:
            share = row["sensitivity"]["full_evaluations"] / row["greedy"]["full_evaluations"]
            add(f"{row['model']}: full evaluations of sensitivity over greedy's", round(share, 3), "<= 0.1", share <= 0.1)
        if "goal" in row:
            reached = row["sensitivity_goal"]
            add(f"{row['model']}: sensitivity within 30 % reaches {row['goal']}",
                reached.get("top1", reached["snr_db"]) if "top1" in row["goal"] else reached["snr_db"], row["goal"],
                reached["goal_met"])
        if "quark" in row:
            add(f"{row['model']}: a loop around Quark over greedy, wall and CPU seconds a candidate",
                [row["quark_over_greedy_wall_s"], row["quark_over_greedy_cpu_s"]], ">= 20",
                min(row["quark_over_greedy_wall_s"], row["quark_over_greedy_cpu_s"]) >= 20)
    gains = [row["sensitivity_equal_share"]["snr_db"] - row["greedy"]["snr_db"] for row in rows]
    median = round(statistics.median(gains), 2)
    add("median SNR of sensitivity over greedy at equal share, dB", median, ">= 2", median >= 2)
    return targets


def show(row):
    print(row["model"])
    for key in ("bf16", "vint8", "vint8_recovered", "greedy", "sensitivity", "sensitivity_equal_share", "greedy_goal",
                "sensitivity_goal"):
        if row.get(key):
            print(f"  {key:<24} " + ", ".join(f"{k} {v}" for k, v in row[key].items() if k != "stop"))
    if "quark" in row:
        print(f"  one iteration around Quark {row['quark']['wall_s']} s, {row['quark']['cpu_s']} CPU s: "
              f"{row['quark_over_greedy_wall_s']} and {row['quark_over_greedy_cpu_s']} times a candidate of greedy")
    sys.stdout.flush()


def explore(arguments):
    rows = []
    for name in arguments.model or DEFAULT_MODELS:
        rows.append(measure(arguments, name))
        if arguments.json:
            print(json.dumps(rows[-1]), flush=True)
        else:
            show(rows[-1])
    targets = targets_of(rows)
    met = all(target["met"] for target in targets)
    if arguments.json:
        print(json.dumps({"targets": targets, "all_targets_met": met}))
    else:
        for target in targets:
            print(f"{'met   ' if target['met'] else 'MISSED'} {target['target']}: {target['figure']} (wanted {target['wanted']})")
    return met
