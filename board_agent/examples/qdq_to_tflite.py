#!/usr/bin/env python3
"""Writes a W8-A8 model of gq (ONNX with Q/DQ pairs) as TFLite, with the integers and scales it has.

  qdq_to_tflite.py model_quantized.onnx model.tflite

Nothing is quantized anew: an operator between DequantizeLinear and QuantizeLinear becomes the int8
operator of TFLite, weights and biases are copied. Needs onnx, numpy, flatbuffers and ai-edge-litert
(for the schema). Inputs and outputs of the TFLite file are int8; those of rank 4 are NHWC, but for
a graph input that the model itself transposes. An operator that is not in OPERATORS below, or that
was left in float, is an error that names it: Ethos-U computes integers only.
"""
import sys

import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as tfl
from onnx import helper, numpy_helper

TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
TYPES = {np.dtype(np.int8): tfl.TensorType.INT8, np.dtype(np.int32): tfl.TensorType.INT32,
         np.dtype(np.uint8): tfl.TensorType.UINT8, np.dtype(np.int16): tfl.TensorType.INT16}


class Unsupported(Exception):
    pass


class Tensor:
    """A tensor of the TFLite graph: its index, its shape as stored, and whether NCHW became NHWC."""

    def __init__(self, index, shape, nhwc, scale, zero):
        self.index, self.shape, self.nhwc, self.scale, self.zero = index, list(shape), nhwc, scale, zero

    def plain_shape(self):
        return [self.shape[i] for i in TO_NCHW] if self.nhwc else self.shape

    def same_quantization(self, other):
        return self.zero == other.zero and np.allclose(self.scale, other.scale, rtol=1e-6)


class Writer:
    """Collects tensors and operators of one subgraph."""

    def __init__(self):
        self.model, self.graph, self.codes = tfl.ModelT(), tfl.SubGraphT(), {}
        self.model.version, self.model.description = 3, "converted from ONNX Q/DQ"
        self.model.buffers, self.model.operatorCodes = [tfl.BufferT()], []
        self.graph.tensors, self.graph.operators = [], []

    def tensor(self, name, shape, dtype, scale=None, zero=None, axis=0, data=None, nhwc=False):
        tensor = tfl.TensorT()
        tensor.name, tensor.shape, tensor.type = name, [int(d) for d in shape], TYPES[np.dtype(dtype)]
        tensor.buffer = 0
        if data is not None:
            buffer = tfl.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            tensor.buffer = len(self.model.buffers) - 1
        if scale is not None:
            tensor.quantization = tfl.QuantizationParametersT()
            tensor.quantization.scale = [float(s) for s in np.atleast_1d(scale)]
            tensor.quantization.zeroPoint = [int(z) for z in np.atleast_1d(zero)]
            tensor.quantization.quantizedDimension = axis
        self.graph.tensors.append(tensor)
        return Tensor(len(self.graph.tensors) - 1, shape, nhwc, scale,
                      None if zero is None else int(np.atleast_1d(zero)[0]))

    def constant(self, name, values):
        values = np.asarray(values, np.int32)
        return self.tensor(name, values.shape, np.int32, data=values)

    def like(self, name, shape, other, nhwc):
        return self.tensor(name, shape, np.int8, other.scale, other.zero, nhwc=nhwc)

    def operator(self, name, version, inputs, output, options=None):
        key = (name, version)
        if key not in self.codes:
            code = tfl.OperatorCodeT()
            code.builtinCode = getattr(tfl.BuiltinOperator, name)
            code.deprecatedBuiltinCode = min(code.builtinCode, 127)
            code.version = version
            self.codes[key] = len(self.model.operatorCodes)
            self.model.operatorCodes.append(code)
        op = tfl.OperatorT()
        op.opcodeIndex = self.codes[key]
        op.inputs, op.outputs = [t.index for t in inputs], [output.index]
        if options is not None:
            op.builtinOptions = options
            op.builtinOptionsType = getattr(tfl.BuiltinOptions, type(options).__name__[:-1])
        self.graph.operators.append(op)
        return output

    def bytes(self, inputs, outputs):
        self.graph.inputs = [t.index for t in inputs]
        self.graph.outputs = [t.index for t in outputs]
        self.model.subgraphs = [self.graph]
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def options(kind, **fields):
    made = getattr(tfl, kind + "T")()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


class Converter:
    def __init__(self, model):
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        self.graph, self.writer = model.graph, Writer()
        self.constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
        self.shapes = {}
        for value in list(self.graph.input) + list(self.graph.value_info) + list(self.graph.output):
            self.shapes[value.name] = [d.dim_value for d in value.type.tensor_type.shape.dim]
        self.graph_inputs = [i.name for i in self.graph.input if i.name not in self.constants]
        self.quantizers, self.consumers = {}, {}
        for node in self.graph.node:
            for name in node.input:
                self.consumers.setdefault(name, []).append(node)
            if node.op_type == "QuantizeLinear":
                self.quantizers.setdefault(node.input[0], []).append(node)
        self.tensors = {}   # quantized ONNX tensor -> Tensor
        self.floats = {}    # output of a DequantizeLinear -> name of what it reads

    # --- What ONNX says ------------------------------------------------------------------------
    @staticmethod
    def attributes(node):
        return {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def parameters(self, node):
        zero = self.constants[node.input[2]] if len(node.input) > 2 and node.input[2] else np.uint8(0)
        if node.op_type == "QuantizeLinear" and zero.dtype != np.int8:
            raise Unsupported(f"{node.output[0]!r} is {zero.dtype}: only int8 is written (W8-A8)")
        return self.constants[node.input[1]], zero

    def input(self, node, at):
        """The TFLite tensor behind an input of an operator."""
        name = node.input[at]
        if name in self.graph_inputs and node.op_type in ("Transpose", "Reshape", "Flatten"):
            # A graph input that is moved before it is quantized is quantized before it is moved.
            scale, zero = self.parameters(self.quantizers[node.output[0]][0])
            if name not in self.tensors:
                self.tensors[name] = self.writer.tensor(name, self.shapes[name], np.int8, scale, zero)
            return self.tensors[name]
        if name not in self.floats:
            raise Unsupported(f"{node.op_type} {node.name!r}: input {name!r} is in float")
        source = self.floats[name]
        if source not in self.tensors:
            dequantizer = self.dequantizer(name)
            scale, zero = self.parameters(dequantizer)
            data = self.constants[source]
            nhwc = data.ndim == 4
            stored = np.transpose(data, TO_NHWC) if nhwc else data
            self.tensors[source] = self.writer.tensor(source, stored.shape, data.dtype, scale, zero,
                                                      data=stored, nhwc=nhwc)
        return self.tensors[source]

    def dequantizer(self, name):
        return next(n for n in self.graph.node
                    if n.op_type == "DequantizeLinear" and n.output[0] == name)

    def constant_input(self, node, at):
        """Integers, scales and axis of a weight or a bias."""
        name = node.input[at]
        if name not in self.floats or self.floats[name] not in self.constants:
            raise Unsupported(f"{node.op_type} {node.name!r}: {name!r} is no quantized constant")
        dequantizer = self.dequantizer(name)
        return self.constants[self.floats[name]], self.parameters(dequantizer)[0]

    def output(self, node, shape=None, nhwc=None):
        """A new tensor for what the operator computes, quantized as its QuantizeLinear says."""
        name = node.output[0]
        if name not in self.quantizers:
            raise Unsupported(f"{node.op_type} {node.name!r} is in float: no QuantizeLinear follows")
        quantizer = self.quantizers[name][0]
        scale, zero = self.parameters(quantizer)
        shape = self.shapes[name] if shape is None else shape
        nhwc = len(shape) == 4 if nhwc is None else nhwc
        stored = [shape[i] for i in TO_NHWC] if nhwc else shape
        made = self.writer.tensor(quantizer.output[0], stored, np.int8, scale, zero, nhwc=nhwc)
        self.tensors[quantizer.output[0]] = made
        return made

    # --- Layout --------------------------------------------------------------------------------
    def transpose(self, tensor, order, nhwc, made=None):
        shape = [tensor.shape[i] for i in order]
        made = made or self.writer.like(f"transposed_{tensor.index}", shape, tensor, nhwc)
        order = self.writer.constant(f"order_{made.index}", order)
        return self.writer.operator("TRANSPOSE", 2, [tensor, order], made,
                                    options("TransposeOptions"))

    def plain(self, tensor):
        if not tensor.nhwc:
            return tensor
        if tensor.shape[1] * tensor.shape[2] == 1 or tensor.shape[3] == 1:
            return self.reshape(tensor, tensor.plain_shape())
        return self.transpose(tensor, TO_NCHW, nhwc=False)

    def nhwc(self, tensor):
        if tensor.nhwc or len(tensor.shape) != 4:
            return tensor
        return self.transpose(tensor, TO_NHWC, nhwc=True)

    def reshape(self, tensor, shape, made=None, nhwc=False):
        made = made or self.writer.like(f"reshaped_{tensor.index}", shape, tensor, nhwc)
        wanted = self.writer.constant(f"shape_{made.index}", made.shape)
        return self.writer.operator("RESHAPE", 1, [tensor, wanted], made,
                                    options("ReshapeOptions", newShape=list(made.shape)))

    def requantize(self, tensor, made):
        return self.writer.operator("QUANTIZE", 2, [tensor], made, options("QuantizeOptions"))

    # --- Operators -----------------------------------------------------------------------------
    def padding(self, node, attributes, tensor, kernel):
        """SAME or VALID, after a PAD where TFLite knows neither."""
        size, strides = tensor.shape[1:3], attributes.get("strides", [1, 1])
        dilations, auto = attributes.get("dilations", [1, 1]), attributes.get("auto_pad", b"NOTSET")
        pads = attributes.get("pads", [0, 0, 0, 0])
        same = []
        for i in range(2):
            reach = (kernel[i] - 1) * dilations[i] + 1
            total = max((-(-size[i] // strides[i]) - 1) * strides[i] + reach - size[i], 0)
            same.append((total // 2, total - total // 2))
        if auto == b"SAME_UPPER" or [(pads[i], pads[i + 2]) for i in range(2)] == same:
            return tensor, tfl.Padding.SAME
        if auto == b"SAME_LOWER":
            pads = [same[0][1], same[1][1], same[0][0], same[1][0]]
        if not any(pads):
            return tensor, tfl.Padding.VALID
        if "Pool" in node.op_type:
            raise Unsupported(f"{node.op_type} {node.name!r}: pads {list(pads)}")
        widths = [[0, 0], [pads[0], pads[2]], [pads[1], pads[3]], [0, 0]]
        shape = [d + sum(w) for d, w in zip(tensor.shape, widths)]
        made = self.writer.like(f"padded_{tensor.index}", shape, tensor, nhwc=True)
        widths = self.writer.constant(f"widths_{made.index}", widths)
        return self.writer.operator("PAD", 2, [tensor, widths], made, options("PadOptions")), \
            tfl.Padding.VALID

    def bias(self, node, at, channels, scale):
        if len(node.input) > at and node.input[at]:
            values, _ = self.constant_input(node, at)
            if values.dtype != np.int32:
                raise Unsupported(f"{node.op_type} {node.name!r}: a bias of {values.dtype}")
        else:
            values = np.zeros(channels, np.int32)
        return self.writer.tensor(f"{node.name or node.output[0]}_bias", [channels], np.int32, scale,
                                  np.zeros(channels, np.int64), data=values.reshape(-1))

    def convolve(self, node, tensor, weights, scale, group, output, strides, dilations, padding):
        channels = weights.shape[0]
        scale = np.broadcast_to(np.atleast_1d(scale), [channels])
        name = f"{node.name or node.output[0]}_weights"
        bias = self.bias(node, 2, channels, float(tensor.scale) * scale)
        zeros = np.zeros(channels, np.int64)
        steps = dict(strideH=strides[0], strideW=strides[1], dilationHFactor=dilations[0],
                     dilationWFactor=dilations[1], padding=padding)
        if group > 1:
            stored = np.transpose(weights, (1, 2, 3, 0))
            filters = self.writer.tensor(name, stored.shape, np.int8, scale, zeros, 3, stored)
            return self.writer.operator(
                "DEPTHWISE_CONV_2D", 3, [tensor, filters, bias], output,
                options("DepthwiseConv2DOptions", depthMultiplier=channels // group, **steps))
        stored = np.transpose(weights, TO_NHWC)
        filters = self.writer.tensor(name, stored.shape, np.int8, scale, zeros, 0, stored)
        return self.writer.operator("CONV_2D", 3, [tensor, filters, bias], output,
                                    options("Conv2DOptions", **steps))

    def conv(self, node):
        attributes, tensor = self.attributes(node), self.nhwc(self.input(node, 0))
        weights, scale = self.constant_input(node, 1)
        group = attributes.get("group", 1)
        if weights.ndim != 4 or (group > 1 and weights.shape[1] != 1):
            raise Unsupported(f"Conv {node.name!r}: rank {weights.ndim}, {group} groups")
        output = self.output(node)
        tensor, padding = self.padding(node, attributes, tensor, weights.shape[2:])
        self.convolve(node, tensor, weights, scale, group, output, attributes.get("strides", [1, 1]),
                      attributes.get("dilations", [1, 1]), padding)

    def gemm(self, node):
        """A convolution with a kernel of 1x1, which takes a scale for each channel."""
        attributes, tensor = self.attributes(node), self.plain(self.input(node, 0))
        weights, scale = self.constant_input(node, 1)
        if attributes.get("transA", 0) or weights.ndim != 2 or len(tensor.shape) != 2:
            raise Unsupported(f"{node.op_type} {node.name!r}: no product of a row and a matrix")
        if not attributes.get("transB", 0):
            weights = weights.T
        rows, columns = tensor.shape[0], weights.shape[0]
        flat = self.reshape(tensor, [rows, 1, 1, tensor.shape[1]], nhwc=True)
        output = self.output(node)
        made = self.writer.like(f"product_{output.index}", [rows, 1, 1, columns], output, nhwc=True)
        self.convolve(node, flat, weights[:, :, None, None], scale, 1, made, [1, 1], [1, 1],
                      tfl.Padding.VALID)
        self.reshape(made, output.shape, output)

    def elementwise(self, node):
        tensors = [self.input(node, 0), self.input(node, 1)]
        if any(len(t.shape) == 4 for t in tensors):
            tensors = [self.nhwc(t) for t in tensors]
        if len(tensors[0].shape) != len(tensors[1].shape):
            raise Unsupported(f"{node.op_type} {node.name!r}: broadcast over ranks")
        name = node.op_type.upper()
        self.writer.operator(name, 2, tensors, self.output(node),
                             options(node.op_type + "Options"))

    def pool(self, node):
        attributes, tensor = self.attributes(node), self.nhwc(self.input(node, 0))
        kernel, strides = attributes["kernel_shape"], attributes.get("strides", [1, 1])
        tensor, padding = self.padding(node, attributes, tensor, kernel)
        output = self.output(node)
        made = output
        if not tensor.same_quantization(output):
            made = self.writer.like(f"pooled_{output.index}", output.shape, tensor, nhwc=True)
        name = "MAX_POOL_2D" if node.op_type == "MaxPool" else "AVERAGE_POOL_2D"
        self.writer.operator(name, 2, [tensor], made,
                             options("Pool2DOptions", padding=padding, strideH=strides[0],
                                     strideW=strides[1], filterHeight=kernel[0],
                                     filterWidth=kernel[1]))
        if made is not output:
            self.requantize(made, output)

    def global_average(self, node):
        axes = self.writer.constant(f"{node.output[0]}_axes", [1, 2])
        self.writer.operator("MEAN", 2, [self.nhwc(self.input(node, 0)), axes], self.output(node),
                             options("ReducerOptions", keepDims=True))

    def resize(self, node):
        attributes, tensor = self.attributes(node), self.nhwc(self.input(node, 0))
        how = (attributes.get("mode", b"nearest"),
               attributes.get("coordinate_transformation_mode", b"half_pixel"))
        corners, halves = how[1] == b"align_corners", how[1] == b"half_pixel"
        nearest = how[0] == b"nearest" and how[1] == b"asymmetric" and \
            attributes.get("nearest_mode", b"round_prefer_floor") == b"floor"
        linear = how[0] == b"linear" and how[1] in (b"half_pixel", b"align_corners", b"asymmetric")
        output = self.output(node)
        if not (nearest or linear) or len(output.shape) != 4 or output.shape[3] != tensor.shape[3]:
            raise Unsupported(f"Resize {node.name!r}: {how[0].decode()}, {how[1].decode()}")
        made = self.between(Tensor(tensor.index, output.shape, True, tensor.scale, tensor.zero), output)
        name = "ResizeNearestNeighbor" if nearest else "ResizeBilinear"
        size = self.writer.constant(f"size_{output.index}", output.shape[1:3])
        self.writer.operator("RESIZE_NEAREST_NEIGHBOR" if nearest else "RESIZE_BILINEAR", 3,
                             [tensor, size], made,
                             options(name + "Options", alignCorners=corners and linear,
                                     halfPixelCenters=halves and linear))
        if made is not output:
            self.requantize(made, output)

    def concat(self, node):
        output = self.output(node)
        axis = self.attributes(node)["axis"] % len(output.shape)
        tensors = []
        for at in range(len(node.input)):
            tensor = self.input(node, at)
            tensor = self.nhwc(tensor) if output.nhwc else self.plain(tensor)
            if not tensor.same_quantization(output):
                made = self.writer.like(f"aligned_{tensor.index}", tensor.shape, output, tensor.nhwc)
                tensor = self.requantize(tensor, made)
            tensors.append(tensor)
        self.writer.operator("CONCATENATION", 2, tensors, output,
                             options("ConcatenationOptions",
                                     axis=TO_NHWC.index(axis) if output.nhwc else axis))

    def between(self, tensor, output):
        """Where data is moved to: `output`, or a tensor before it when the scales differ."""
        if tensor.same_quantization(output):
            return output
        return self.writer.like(f"moved_{output.index}", output.shape, tensor, output.nhwc)

    def move(self, node):
        """Reshape and Flatten: elements in the order of ONNX."""
        tensor, output = self.plain(self.input(node, 0)), self.output(node, nhwc=False)
        made = self.reshape(tensor, output.shape, self.between(tensor, output))
        if made is not output:
            self.requantize(made, output)

    def turn(self, node):
        tensor, order = self.input(node, 0), tuple(self.attributes(node)["perm"])
        if order == (TO_NHWC if tensor.nhwc else TO_NCHW):
            # What is stored stays as it is; only its name changes.
            self.tensors[self.quantizers[node.output[0]][0].output[0]] = Tensor(
                tensor.index, tensor.shape, not tensor.nhwc, tensor.scale, tensor.zero)
            return
        tensor, output = self.plain(tensor), self.output(node, nhwc=False)
        made = self.transpose(tensor, order, False, self.between(tensor, output))
        if made is not output:
            self.requantize(made, output)

    def activation(self, node):
        """TFLite fixes the quantization of what a Softmax or a Sigmoid gives."""
        name, kind = {"Softmax": ("SOFTMAX", options("SoftmaxOptions", beta=1.0)),
                      "Sigmoid": ("LOGISTIC", None), "Relu": ("RELU", None)}[node.op_type]
        tensor = self.input(node, 0)
        if node.op_type == "Softmax":
            axis = self.attributes(node).get("axis", -1) % len(tensor.shape)
            if axis != len(tensor.shape) - 1:
                raise Unsupported(f"Softmax {node.name!r}: axis {axis} is not the last")
            tensor = self.plain(tensor)
        output = self.output(node, nhwc=tensor.nhwc)
        if node.op_type == "Relu":
            self.writer.operator(name, 2, [tensor], output, kind)
            return
        made = self.writer.tensor(f"fixed_{output.index}", output.shape, np.int8, 1 / 256, -128,
                                  nhwc=output.nhwc)
        self.writer.operator(name, 2, [tensor], made, kind)
        self.requantize(made, output)

    OPERATORS = {"Conv": conv, "Gemm": gemm, "MatMul": gemm, "Add": elementwise, "Sub": elementwise,
                 "Mul": elementwise, "MaxPool": pool, "AveragePool": pool,
                 "GlobalAveragePool": global_average, "Resize": resize, "Concat": concat,
                 "Reshape": move, "Flatten": move, "Transpose": turn, "Softmax": activation, "Sigmoid": activation,
                 "Relu": activation}

    def quantize(self, node):
        """A graph input, or a tensor that is quantized a second time."""
        name = node.input[0]
        if node.output[0] in self.tensors:
            return
        scale, zero = self.parameters(node)
        if name in self.floats:
            tensor = self.input(node, 0)
        elif name in self.quantizers and self.quantizers[name][0] is not node:
            tensor = self.tensors[self.quantizers[name][0].output[0]]
        else:
            shape = self.shapes[name]
            reads = self.consumers[node.output[0]]
            turned = any(c.op_type == "Transpose" for r in reads
                         for c in self.consumers.get(r.output[0], []))
            nhwc = len(shape) == 4 and not turned
            stored = [shape[i] for i in TO_NHWC] if nhwc else shape
            made = self.writer.tensor(name, stored, np.int8, scale, zero, nhwc=nhwc)
            self.tensors[node.output[0]] = made
            self.tensors[name] = made
            return
        made = self.writer.tensor(node.output[0], tensor.shape, np.int8, scale, zero,
                                  nhwc=tensor.nhwc)
        self.tensors[node.output[0]] = self.requantize(tensor, made)

    def convert(self):
        problems = []
        for node in self.graph.node:
            try:
                if node.op_type == "DequantizeLinear":
                    self.floats[node.output[0]] = node.input[0]
                elif node.op_type == "QuantizeLinear":
                    self.quantize(node)
                elif node.op_type in self.OPERATORS:
                    self.OPERATORS[node.op_type](self, node)
                else:
                    raise Unsupported(f"{node.op_type} {node.name!r}: no int8 operator is known for it")
            except (Unsupported, KeyError) as problem:
                problems.append(str(problem))
        if problems:
            raise Unsupported("; ".join(problems[:5]) + (f" and {len(problems) - 5} more"
                                                         if len(problems) > 5 else ""))
        inputs = [self.tensors[name] for name in self.graph_inputs]
        outputs = []
        for value in self.graph.output:
            if value.name not in self.floats:
                raise Unsupported(f"output {value.name!r} is in float")
            outputs.append(self.tensors[self.floats[value.name]])
        return self.writer.bytes(inputs, outputs)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: qdq_to_tflite.py MODEL.onnx MODEL.tflite")
    try:
        converter = Converter(onnx.load(sys.argv[1]))
        data = converter.convert()
    except Unsupported as problem:
        sys.exit(f"qdq_to_tflite: {problem}")
    with open(sys.argv[2], "wb") as file:
        file.write(data)
    print(f"{len(converter.writer.graph.operators)} operators, {len(data)} bytes")


if __name__ == "__main__":
    main()
