"""Runs AMD Quark for gq: quark_driver.py REQUEST.json (or --probe).

The request names the float model, the folder of samples (N/INPUT_NUMBER.npy), the names of the inputs, the
resolved Quark JSON configuration and where the result goes. What Quark prints is the log; the last line is
GQ-RESULT and one JSON object.
"""
import json
import os
import sys


def versions():
    import numpy
    import onnx
    import onnxruntime
    import quark
    import quark.onnx  # noqa: F401  (fails where the ONNX part is missing)
    return {"quark": getattr(quark, "__version__", "unknown"), "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__,
            "numpy": numpy.__version__, "python": sys.version.split()[0]}


def answer(**fields):
    sys.stdout.flush()
    print("GQ-RESULT " + json.dumps(fields), flush=True)


class Samples:
    """The samples one at a time, so that memory does not grow with their number."""

    def __init__(self, folder, names, count):
        self.folder, self.names, self.count, self.at = folder, names, count, 0

    def get_next(self):
        import numpy
        if self.at >= self.count:
            return None
        place = os.path.join(self.folder, str(self.at))
        self.at += 1
        return {name: numpy.load(os.path.join(place, "%d.npy" % i)) for i, name in enumerate(self.names)}

    def rewind(self):
        self.at = 0

    def __len__(self):
        return self.count


def tensor_spec(entry):
    from quark.onnx.quantization.config import spec as specs
    if entry is None:
        return None
    cls = getattr(specs, entry["spec"], None)
    if cls is None:
        raise ValueError("this version of Quark has no %s" % entry["spec"])
    enums = {"scale_type": specs.ScaleType, "calibration_method": specs.CalibMethod, "quant_granularity": specs.QuantGranularity}
    params = {}
    for key, value in (entry.get("params") or {}).items():
        if key in enums:
            params[key] = enums[key][str(value).split(".")[-1]]
        elif key == "symmetric":
            params[key] = bool(value)
        else:
            raise ValueError("the parameter %s of %s has no counterpart in Quark" % (key, entry["spec"]))
    return cls(**params)


def layer_config(layer):
    from quark.onnx.quantization.config.spec import QLayerConfig
    fields = {key: tensor_spec(layer[key]) for key in ("input_tensors", "weight", "bias", "output_tensors") if layer.get(key)}
    return QLayerConfig(**fields)


def q_config(config):
    from quark.onnx.quantization.config.config import QConfig
    exclude = config.get("exclude") or {}
    excluded = list(exclude.get("node_names") or [])
    pairs = [tuple(pair) for pair in exclude.get("subgraphs") or []]
    options = dict(config.get("extra_options") or {})
    options["UseRandomData"] = False
    return QConfig(
        global_config=layer_config(config["global_config"]),
        specific_layer_config={layer_config(e["layer_config"]): e["target_node_names"] for e in config.get("specific_layer_config") or []},
        layer_type_config={layer_config(e["layer_config"]): e["target_op_types"] for e in config.get("layer_type_config") or []},
        exclude=excluded + ([pairs] if pairs else []), extra_options=options)


def limit_threads(threads):
    import onnxruntime
    plain = onnxruntime.InferenceSession

    class Session(plain):  # Quark's calibration gives no way to set threads
        def __init__(self, model, sess_options=None, *args, **kw):
            sess_options = sess_options or onnxruntime.SessionOptions()
            sess_options.intra_op_num_threads, sess_options.inter_op_num_threads = threads, 1
            super().__init__(model, sess_options, *args, **kw)
    onnxruntime.InferenceSession = Session


def main(path):
    if path == "--probe":
        return answer(ok=True, versions=versions())
    with open(path, encoding="utf-8") as file:
        request = json.load(file)
    found = versions()
    limit_threads(request["threads"])
    from quark.onnx import ModelQuantizer
    samples = Samples(request["samples"], request["inputs"], request["count"])
    ModelQuantizer(q_config(request["config"])).quantize_model(request["model"], request["output"], samples)
    if not os.path.exists(request["output"]):
        raise RuntimeError("Quark wrote no model")
    answer(ok=True, versions=found)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except ImportError as error:
        answer(ok=False, kind="missing", message=str(error))
        sys.exit(3)
    except Exception as error:  # every failure becomes the job's message
        answer(ok=False, kind="failed", message="%s: %s" % (type(error).__name__, error))
        sys.exit(4)
