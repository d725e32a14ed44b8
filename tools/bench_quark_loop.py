"""One iteration of a loop around AMD Quark, timed: quantize a model to VINT8 on calibration data, then run
the result on evaluation data. Prints one JSON object with wall and CPU seconds of both parts. Imports,
loading of samples and the float model's outputs are left out, as a loop has them once.

Usage: bench_quark_loop.py PEERS_SCRIPT MODEL CALIBRATION EVALUATION THREADS

PEERS_SCRIPT has the reader of samples. The evaluation is the one that `gq` reports: basic graph
optimization, Q/DQ in float arithmetic, one thread a sample, THREADS samples at the same time.
"""
import importlib.util
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor


def main():
    script, model, calibration, evaluation, threads = sys.argv[1:6]
    threads = int(threads)
    spec = importlib.util.spec_from_file_location("peers", script)
    peers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peers)

    import onnxruntime as ort
    import torch
    from quark.onnx import ModelQuantizer
    from quark.onnx.quantization.config import get_default_config
    from quark.onnx.quantization.config.config import Config
    torch.set_num_threads(threads)

    def session(path):
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        options.log_severity_level = 4
        return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    names = [value.name for value in session(model).get_inputs()]
    calibration_samples = peers.load_samples([calibration], names, -1)
    evaluation_samples = peers.load_samples([evaluation], names, -1)
    plain = ort.InferenceSession

    class Limited(plain):  # Quark's calibrators give no way to set threads
        def __init__(self, path, sess_options=None, *args, **more):
            sess_options = sess_options or ort.SessionOptions()
            sess_options.intra_op_num_threads, sess_options.inter_op_num_threads = threads, 1
            super().__init__(path, sess_options, *args, **more)

    row = {"threads": threads, "calibration_samples": len(calibration_samples),
           "evaluation_samples": len(evaluation_samples)}
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "out.onnx")
        inner = get_default_config("VINT8")
        inner.extra_options["UseRandomData"] = False
        ort.InferenceSession = Limited
        wall, cpu = time.perf_counter(), os.times()
        ModelQuantizer(Config(global_quant_config=inner)).quantize_model(model, result, peers.Reader(calibration_samples))
        row.update(seconds_since("quantize", wall, cpu))
        ort.InferenceSession = plain
        wall, cpu = time.perf_counter(), os.times()
        candidate = session(result)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda sample: candidate.run(None, sample), evaluation_samples))
        row.update(seconds_since("evaluate", wall, cpu))
    print("@@" + json.dumps(row))


def seconds_since(part, wall, cpu):
    now = os.times()
    spent = sum(now[:4]) - sum(cpu[:4])
    return {f"{part}_wall_s": round(time.perf_counter() - wall, 2), f"{part}_cpu_s": round(spent, 2)}


if __name__ == "__main__":
    main()
