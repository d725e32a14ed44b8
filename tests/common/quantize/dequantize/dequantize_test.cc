// Every form of quantization is taken out; what is left computes the same up to the rounding of
// activations. Weights here are exact: the expected values are calculated beside each test.
#include "common/quantize/dequantize/dequantize.h"

#include <gmock/gmock.h>

#include <cctype>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/status.h"
#include "common/graph/graph_index.h"
#include "common/quantize/scheme.h"
#include "tests/common/graph/test_models.h"
#include "tests/common/quantize/quantize_fixture.h"

namespace gq::quantize {
namespace {

using graph::OpTypes;
using graph::TestModel;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

graph::Model Stripped(const graph::Model& model, DequantizeReport* report = nullptr) {
  graph::Model copy = model;
  auto done = Dequantize(&copy);
  EXPECT_TRUE(done.ok()) << done.status();
  if (done.ok() && report != nullptr) *report = *done;
  return copy;
}

// What is left of a model has these operators and computes the same up to `tolerance`.
DequantizeReport ExpectStripped(const graph::Model& model,
                                const std::vector<std::string>& operators, float tolerance) {
  DequantizeReport report;
  const graph::Model stripped = Stripped(model, &report);
  EXPECT_THAT(OpTypes(stripped), testing::ElementsAreArray(operators));
  graph::ExpectNear(graph::RunModel(stripped), graph::RunModel(model), tolerance);
  return report;
}

std::vector<float> Floats(const graph::Model& model, std::string_view name) {
  const auto* tensor = model.FindInitializer(name);
  if (tensor == nullptr) {
    ADD_FAILURE() << "no constant " << name;
    return {};
  }
  EXPECT_EQ(tensor->data_type(), onnx::TensorProto::FLOAT);
  return *model.Data(*tensor)->ToFloats();
}

// No integers of 16 bits or less are left anywhere.
void ExpectAllFloat(const graph::Model& model) {
  EXPECT_EQ(graph::StateOf(model.graph()), graph::ModelState::kFloat);
  for (const auto& tensor : model.graph().initializer()) {
    EXPECT_THAT(tensor.data_type(),
                testing::AnyOf(onnx::TensorProto::FLOAT, onnx::TensorProto::INT64))
        << tensor.name();
  }
  for (const auto& import : model.proto().opset_import()) {
    EXPECT_THAT(import.domain(), testing::AnyOf("", "com.microsoft"));
  }
}

TEST(Dequantize, WeightsOfDequantizeLinearAloneBecomeFloatConstants) {
  const auto model = TestModel(R"(g (float[1,2] x) => (float[1,3] y)
    <int8[2,3] W_quantized = {1, -2, 3, 4, 5, -6}, float[3] s = {0.5, 0.25, 2.0},
     int8[3] z = {0, 0, 1}, float xs = {0.1}, int8 xz = {3}> {
      xq = QuantizeLinear(x, xs, xz)
      xd = DequantizeLinear(xq, xs, xz)
      wd = DequantizeLinear<axis = -1>(W_quantized, s, z)
      y = MatMul(xd, wd)
    })");
  DequantizeReport report;
  const auto stripped = Stripped(model, &report);
  EXPECT_THAT(OpTypes(stripped), ElementsAre("MatMul"));
  EXPECT_EQ(stripped.graph().node(0).input(0), "x");
  EXPECT_THAT(Floats(stripped, "W"), ElementsAre(0.5, -0.5, 4, 2, 1.25, -14));
  EXPECT_EQ(report.constants, 1);
  EXPECT_EQ(report.removed.at("DequantizeLinear"), 2);
  ExpectAllFloat(stripped);
}

TEST(Dequantize, AMissingZeroPointIsZeroAndBiasesOfInt32Count) {
  const auto model = TestModel(R"(g (float[1,2] x) => (float[1,2] y)
    <uint8[2,2] w = {1, 2, 3, 4}, float s = {0.5}, int32[2] b = {1000000, -3}, float bs = {0.001}> {
      wd = DequantizeLinear(w, s)
      bd = DequantizeLinear(b, bs)
      y = Gemm(x, wd, bd)
    })");
  const auto stripped = Stripped(model);
  EXPECT_THAT(OpTypes(stripped), ElementsAre("Gemm"));
  EXPECT_THAT(Floats(stripped, std::string(graph::InputName(stripped.graph().node(0), 1))),
              ElementsAre(0.5, 1, 1.5, 2));
  EXPECT_THAT(Floats(stripped, std::string(graph::InputName(stripped.graph().node(0), 2))),
              ElementsAre(testing::FloatEq(1000000 * 0.001f), testing::FloatEq(-3 * 0.001f)));
}

TEST(Dequantize, BlocksOfInt4HaveAScaleEach) {
  // 1 2 3 4 5 6 7 -8, two a byte. Rows 0 and 1 share the first scale of a column, rows 2 and 3 the
  // second.
  const auto model = TestModel(R"(g (float[1,4] x) => (float[1,2] y)
    <int4[4,2] w = {33, 67, 101, 135}, float[2,2] s = {1.0, 10.0, 0.5, 2.0}> {
      wd = DequantizeLinear<axis = 0, block_size = 2>(w, s)
      y = MatMul(x, wd)
    })",
                               21, 10);
  const auto stripped = Stripped(model);
  EXPECT_THAT(Floats(stripped, stripped.graph().node(0).input(1)),
              ElementsAre(1, 20, 3, 40, 2.5, 12, 3.5, -16));
}

TEST(Dequantize, SixteenBitPairsOfTheMicrosoftDomainGo) {
  const auto model = TestModel(R"(g (float[1,4] x) => (float[1,4] y)
    <float s = {0.001}, uint16 z = {30000}> {
      q = com.microsoft.QuantizeLinear(x, s, z)
      d = com.microsoft.DequantizeLinear(q, s, z)
      y = Tanh(d)
    })",
                               17, 8, ", \"com.microsoft\" : 1");
  const auto stripped = Stripped(model);
  EXPECT_THAT(OpTypes(stripped), ElementsAre("Tanh"));
  EXPECT_EQ(stripped.OpsetOf("com.microsoft"), 0);
}

TEST(Dequantize, ExtendedNodesOfQuarkGo) {
  const auto model = TestModel(R"(g (float[1,4] x) => (float[1,4] y)
    <float s = {1.0}, bfloat16 z = {0}> {
      q = com.amd.quark.ExtendedQuantizeLinear(x, s, z)
      d = com.amd.quark.ExtendedDequantizeLinear(q, s, z)
      t = Tanh(d)
      y = com.amd.quark.BFPQuantizeDequantize<bit_width = 13>(t)
    })",
                               17, 8, ", \"com.amd.quark\" : 1");
  DequantizeReport report;
  const auto stripped = Stripped(model, &report);
  EXPECT_EQ(report.state, graph::ModelState::kSpecialized);
  EXPECT_THAT(OpTypes(stripped), ElementsAre("Tanh"));
  EXPECT_EQ(stripped.graph().node(0).output(0), "y");
  ExpectAllFloat(stripped);
}

TEST(Dequantize, CastPairsGoWithTheFactorsAroundThem) {
  const auto model = TestModel(R"(g (float[1,4] x) => (float[1,4] y, float[1,4] v)
    <float a = {0.25}, float b = {4.0}, bfloat16[4] w = {1, 2, 3, 4}, float s = {1.0}, int8 z = {0}> {
      m = Mul(x, a)
      h = Cast<to = 16>(m)
      f = Cast<to = 1>(h)
      n = Mul(f, b)
      wf = Cast<to = 1>(w)
      y = Add(n, wf)
      q = QuantizeLinear(y, s, z)
      d = DequantizeLinear(q, s, z)
      v = Tanh(d)
    })");
  const auto stripped = Stripped(model);
  EXPECT_THAT(OpTypes(stripped), ElementsAre("Add", "Tanh"));
  EXPECT_EQ(stripped.graph().node(0).input(0), "x");
  ExpectAllFloat(stripped);
}

TEST(Dequantize, OutputsAndInputsOfIntegersBecomeFloat) {
  const auto model = TestModel(R"(g (int8[1,4] x) => (uint8[1,4] y)
    <float s = {0.5}, int8 z = {0}, float t = {0.25}, uint8 u = {128}> {
      turned = Transpose<perm = [1, 0]>(x)
      back = Transpose<perm = [1, 0]>(turned)
      d = DequantizeLinear(back, s, z)
      r = Tanh(d)
      y = QuantizeLinear(r, t, u)
    })");
  DequantizeReport report;
  const auto stripped = Stripped(model, &report);
  EXPECT_THAT(OpTypes(stripped), ElementsAre("Transpose", "Transpose", "Tanh"));
  EXPECT_EQ(stripped.graph().input(0).type().tensor_type().elem_type(), onnx::TensorProto::FLOAT);
  EXPECT_EQ(stripped.graph().output(0).type().tensor_type().elem_type(), onnx::TensorProto::FLOAT);
  EXPECT_EQ(stripped.graph().output(0).name(), "y");
  EXPECT_THAT(report.warnings, testing::SizeIs(2));
}

TEST(Dequantize, ARangeThatStartsAtZeroBringsTheReluBack) {
  // The quantizer dropped Conv -> Relu: uint8 with zero point 0 clips what the Relu would.
  const auto model = TestModel(R"(g (float[1,1,2,2] x) => (float[1,1,2,2] y)
    <float[1,1,1,1] w = {-1.0}, float s = {0.01}, uint8 z = {0}> {
      c = Conv(x, w)
      q = QuantizeLinear(c, s, z)
      y = DequantizeLinear(q, s, z)
    })");
  EXPECT_EQ(ExpectStripped(model, {"Conv", "Relu"}, 0.02f).clamps, 1);
}

TEST(Dequantize, ARangeThatEndsAtSixBringsTheReluSixBack) {
  const auto model = TestModel(R"(g (float[1,4] x) => (float[1,4] y)
    <float f = {20.0}, float s = {0.0235294118}, uint8 z = {0}> {
      c = Mul(x, f)
      q = QuantizeLinear(c, s, z)
      y = DequantizeLinear(q, s, z)
    })");
  ExpectStripped(model, {"Mul", "Clip"}, 0.02f);
}

TEST(Dequantize, NoReluWhereValuesAreNotNegativeAnyway) {
  const auto model = TestModel(R"(g (float[1,4] x) => (float[1,4] y)
    <float s = {0.01}, uint8 z = {0}> {
      xq = QuantizeLinear(x, s, z)
      xd = DequantizeLinear(xq, s, z)
      a = Sigmoid(xd)
      q = QuantizeLinear(a, s, z)
      y = DequantizeLinear(q, s, z)
    })");
  EXPECT_THAT(OpTypes(Stripped(model)), ElementsAre("Sigmoid"));
}

TEST(Dequantize, PairsWithOtherParametersBehindThanBeforeAreRescaled) {
  const auto model = TestModel(R"(g (float[1,4] x) => (float[1,4] y)
    <float s = {0.02}, int8 z = {10}, float t = {0.01}, int8 u = {4}> {
      q = QuantizeLinear(x, s, z)
      y = DequantizeLinear(q, t, u)
    })");
  EXPECT_EQ(ExpectStripped(model, {"Mul", "Add"}, 0.02f).rescales, 1);
}

TEST(Dequantize, IntegersThatAnOrdinaryOperatorReadsAreComputed) {
  const auto model = TestModel(R"(g (float[1,4] x) => (float[1,4] y)
    <float s = {0.1}, uint8 z = {100}> {
      q = QuantizeLinear(x, s, z)
      y = Cast<to = 1>(q)
    })");
  const auto stripped = Stripped(model);
  EXPECT_THAT(OpTypes(stripped), Not(Contains("QuantizeLinear")));
  graph::ExpectNear(graph::RunModel(stripped), graph::RunModel(model));
}

TEST(Dequantize, BodiesOfBranchesAreWalked) {
  const auto model = TestModel(R"(g (float[1,4] x, bool c) => (float[1,4] y)
    <float s = {0.05}, int8 z = {0}, int8[4] w = {1, 2, 3, 4}> {
      q = QuantizeLinear(x, s, z)
      y = If (c) <
        then_branch = a () => (float[1,4] p) {
          d = DequantizeLinear(q, s, z)
          wd = DequantizeLinear(w, s, z)
          p = Add(d, wd)
        },
        else_branch = b () => (float[1,4] r) {
          r = DequantizeLinear(q, s, z)
        }>
    })");
  const auto stripped = Stripped(model);
  EXPECT_THAT(OpTypes(stripped), ElementsAre("If"));
  ExpectAllFloat(stripped);
}

TEST(Dequantize, QLinearConvAndItsKinBecomeFloatOperators) {
  const auto model = TestModel(R"(g (float[1,2,4,4] x) => (float[1,3] y)
    <float xs = {0.04}, uint8 xz = {128}, int8[2,2,1,1] W_quantized = {10, -20, 30, 40},
     float[2] ws = {0.1, 0.05}, int8[2] wz = {0, 0}, int32[2] b = {100, -50},
     float cs = {0.1}, uint8 cz = {120}, float gs = {0.05}, uint8 gz = {120},
     int8[2,3] m = {1, 2, 3, 4, 5, 6}, float ms = {0.5}, int8 mz = {0},
     float ys = {0.2}, uint8 yz = {100}, int64[2] shape = {1, 2}> {
      xq = QuantizeLinear(x, xs, xz)
      [conv_quant] cq = QLinearConv(xq, xs, xz, W_quantized, ws, wz, cs, cz, b)
      aq = com.microsoft.QLinearAdd(cq, cs, cz, cq, cs, cz, cs, cz)
      gq = com.microsoft.QLinearGlobalAveragePool<channels_last = 0>(aq, cs, cz, gs, gz)
      fq = Reshape(gq, shape)
      yq = QLinearMatMul(fq, gs, gz, m, ms, mz, ys, yz)
      y = DequantizeLinear(yq, ys, yz)
    })",
                               17, 8, ", \"com.microsoft\" : 1");
  DequantizeReport report;
  const auto stripped = Stripped(model, &report);
  EXPECT_EQ(report.state, graph::ModelState::kQdq);
  EXPECT_THAT(OpTypes(stripped),
              ElementsAre("Conv", "Add", "GlobalAveragePool", "Reshape", "MatMul"));
  EXPECT_EQ(stripped.graph().node(0).name(), "conv");
  EXPECT_THAT(Floats(stripped, "W"), ElementsAre(testing::FloatEq(1), testing::FloatEq(-2),
                                                 testing::FloatEq(1.5), testing::FloatEq(2)));
  const auto bias = Floats(stripped, stripped.graph().node(0).input(2));
  EXPECT_NEAR(bias[0], 100 * 0.04 * 0.1, 1e-6);
  EXPECT_NEAR(bias[1], -50 * 0.04 * 0.05, 1e-6);
  ExpectAllFloat(stripped);
  // One step of each quantizer on the way.
  graph::ExpectNear(graph::RunModel(stripped), graph::RunModel(model), 0.3f);
}

TEST(Dequantize, DynamicQuantizationBecomesAProduct) {
  const auto model = TestModel(R"(g (float[3,2] x) => (float[3,2] y)
    <int8[2,2] W_quantized = {10, -20, 30, 40}, float[2] ws = {0.1, 0.05}, int8[2] wz = {0, 0}> {
      xq, xs, xz = DynamicQuantizeLinear(x)
      i = MatMulInteger(xq, W_quantized, xz, wz)
      f = Cast<to = 1>(i)
      s = Mul(xs, ws)
      y = Mul(f, s)
    })");
  DequantizeReport report;
  const auto stripped = Stripped(model, &report);
  EXPECT_THAT(OpTypes(stripped), ElementsAre("MatMul"));
  EXPECT_THAT(Floats(stripped, "W"), ElementsAre(testing::FloatEq(1), testing::FloatEq(-1),
                                                 testing::FloatEq(3), testing::FloatEq(2)));
  ExpectAllFloat(stripped);
  graph::ExpectNear(graph::RunModel(stripped), graph::RunModel(model), 0.05f);
}

TEST(Dequantize, DynamicConvolutionsBecomeConvolutions) {
  const auto model = TestModel(R"(g (float[1,1,3,3] x) => (float[1,2,2,2] y)
    <uint8[2,1,2,2] w = {1, 2, 3, 4, 5, 6, 7, 8}, float ws = {0.1}, uint8 wz = {3}> {
      xq, xs, xz = DynamicQuantizeLinear(x)
      i = ConvInteger(xq, w, xz, wz)
      f = Cast<to = 1>(i)
      s = Mul(xs, ws)
      y = Mul(f, s)
    })");
  const auto stripped = Stripped(model);
  EXPECT_THAT(OpTypes(stripped), ElementsAre("Conv"));
  graph::ExpectNear(graph::RunModel(stripped), graph::RunModel(model), 0.05f);
}

TEST(Dequantize, MatMulNBitsIsUnpacked) {
  // K = 16, N = 2, blocks of 16: eight bytes a column, the low half of a byte first.
  const auto model = TestModel(R"(g (float[1,16] x) => (float[1,2] y)
    <uint8[2,1,8] B = {16, 50, 84, 118, 152, 186, 220, 254,
                       136, 136, 136, 136, 136, 136, 136, 152},
     float[2] s = {0.5, 2.0}> {
      y = com.microsoft.MatMulNBits<K = 16, N = 2, bits = 4, block_size = 16>(x, B, s)
    })",
                               17, 8, ", \"com.microsoft\" : 1");
  const auto stripped = Stripped(model);
  EXPECT_THAT(OpTypes(stripped), ElementsAre("MatMul"));
  const auto weights = Floats(stripped, stripped.graph().node(0).input(1));
  for (int k = 0; k < 16; ++k) {
    EXPECT_FLOAT_EQ(weights[k * 2], static_cast<float>(k - 8) * 0.5f);
    EXPECT_FLOAT_EQ(weights[k * 2 + 1], k == 15 ? 2.0f : 0.0f);
  }
  graph::ExpectNear(graph::RunModel(stripped), graph::RunModel(model), 1e-4f);
}

// ONNX Runtime computes both: the packed operator and what it became.
TEST(Dequantize, FloatsOfFourBitsAreUnpacked) {
  for (const int type : {0, 1}) {
    SCOPED_TRACE(type);
    std::string codes;
    for (int i = 0; i < 24; ++i) codes += (i == 0 ? "" : ", ") + std::to_string(i * 37 % 256);
    // 48 values: K = 16, N = 3; the blocks of 32 do not end with the rows.
    const auto model =
        TestModel("g (float[2,16] x) => (float[2,3] y) <uint8[24] b = {" + codes +
                      "}, float[2] a = {0.5, 3}> { y = com.microsoft.MatMulBnb4<K = 16, N = 3, "
                      "block_size = 32, quant_type = " +
                      std::to_string(type) + ">(x, b, a) }",
                  17, 8, ", \"com.microsoft\" : 1");
    const auto stripped = Stripped(model);
    EXPECT_THAT(OpTypes(stripped), ElementsAre("MatMul"));
    ExpectAllFloat(stripped);
    graph::ExpectNear(graph::RunModel(stripped), graph::RunModel(model), 1e-5f);
  }
}

TEST(Dequantize, BlobsOfMatMulFpQ4AreUnpacked) {
  struct Kind {
    int number;
    int block;
    bool zero_point;
  };
  for (const Kind kind : {Kind{0, 32, false}, Kind{1, 32, true}}) {
    SCOPED_TRACE(kind.number);
    constexpr int kRows = 40, kColumns = 3;
    const int blocks = (kRows + kind.block - 1) / kind.block;
    std::vector<int> blob;
    for (int i = 0; i < kColumns * blocks; ++i) {
      const float scale = 0.25f * static_cast<float>(i + 1);
      uint8_t bytes[sizeof scale];
      std::memcpy(bytes, &scale, sizeof scale);
      blob.insert(blob.end(), bytes, bytes + sizeof scale);
      if (kind.zero_point) blob.push_back(3 + i);
      for (int j = 0; j < kind.block / 2; ++j) blob.push_back((i * 31 + j * 53) % 256);
    }
    std::string values;
    for (const int byte : blob) values += (values.empty() ? "" : ", ") + std::to_string(byte);
    const auto model = TestModel(
        "g (float[2,40] x) => (float[2,3] y) <uint8[" + std::to_string(blob.size()) + "] b = {" +
            values + "}, int64[2] s = {40, 3}> { y = com.microsoft.MatMulFpQ4<blk_quant_type = " +
            std::to_string(kind.number) + ">(x, b, s) }",
        17, 8, ", \"com.microsoft\" : 1");
    const auto session = runtime::Session::Create(model);
    if (absl::StrContains(session.status().message(), "not yet supported on this hardware")) {
      GTEST_SKIP() << "ONNX Runtime has MatMulFpQ4 for processors with AVX-512 only";
    }
    const auto stripped = Stripped(model);
    EXPECT_THAT(OpTypes(stripped), ElementsAre("MatMul"));
    ExpectAllFloat(stripped);
    graph::ExpectNear(graph::RunModel(stripped), graph::RunModel(model), 1e-2f);
  }
}

TEST(Dequantize, ChannelsThatAreLastComeFirst) {
  const auto model = TestModel(R"(g (float[1,4,4,2] x) => (float[1,2,2,3] y)
    <float xs = {0.04}, uint8 xz = {128}, uint8[3,2,1,1] w = {138, 108, 158, 168, 100, 140},
     float ws = {0.1}, uint8 wz = {128}, float cs = {0.1}, uint8 cz = {120}> {
      xq = QuantizeLinear(x, xs, xz)
      cq = com.microsoft.QLinearConv<channels_last = 1>(xq, xs, xz, w, ws, wz, cs, cz)
      pq = com.microsoft.NhwcMaxPool<kernel_shape = [2, 2], strides = [2, 2]>(cq)
      y = DequantizeLinear(pq, cs, cz)
    })",
                               17, 8, ", \"com.microsoft\" : 1");
  const auto stripped = Stripped(model);
  EXPECT_THAT(OpTypes(stripped),
              ElementsAre("Transpose", "Conv", "Transpose", "Transpose", "MaxPool", "Transpose"));
  ExpectAllFloat(stripped);
  graph::ExpectNear(graph::RunModel(stripped), graph::RunModel(model), 0.15f);
}

// What attributes promise is compared with the data before anything is made for it.
TEST(Dequantize, ImpossibleSizesOfPackedWeightsAreRefused) {
  for (const char* op :
       {"MatMulNBits<K = 4611686018427387904, N = 4, bits = 4, block_size = 16>(x, b, a)",
        "MatMulNBits<K = 268435456, N = 268435456, bits = 8, block_size = 268435456>(x, b, a)",
        "MatMulBnb4<K = 4611686018427387904, N = 4, quant_type = 1, block_size = 16>(x, b, a)",
        "MatMulBnb4<K = 268435456, N = 268435456, quant_type = 1, block_size = 1>(x, b, a)"}) {
    SCOPED_TRACE(op);
    auto model = TestModel(
        std::string("g (float[1,16] x) => (float[1,4] y) <uint8[8] b = {1, 2, 3, 4, 5, 6, 7, 8}, "
                    "float[1] a = {1}> { y = com.microsoft.") +
            op + " }",
        17, 8, ", \"com.microsoft\" : 1");
    EXPECT_EQ(base::GetReason(Dequantize(&model).status()), base::Reason::kModelUnsupported);
  }
}

TEST(Dequantize, ConstantsOfTheNpusArithmeticAreTakenOut) {
  const auto model = TestModel(R"(g (float[1,1,3,3] x) => (float[1,1,1,1] y)
    <float k = {0.984375}, float s = {0.03125}, int8 z = {0}> {
      p = AveragePool<kernel_shape = [3, 3]>(x)
      m = Mul(p, k)
      q = QuantizeLinear(m, s, z)
      y = DequantizeLinear(q, s, z)
    })");
  DequantizeReport report;
  EXPECT_THAT(OpTypes(Stripped(model, &report)), ElementsAre("AveragePool"));
  EXPECT_EQ(report.hardware_factors, 1);
}

TEST(Dequantize, AFloatModelIsRefused) {
  auto model = TestModel("g (float[1,4] x) => (float[1,4] y) { y = Tanh(x) }");
  const auto status = Dequantize(&model).status();
  EXPECT_EQ(base::GetReason(status), base::Reason::kNotQuantized);
  EXPECT_THAT(OpTypes(model), ElementsAre("Tanh"));
}

TEST(Dequantize, AnOperatorWithoutAFloatFormIsNamed) {
  auto model = TestModel(R"(g (float[1,16] x, uint8[16] b, float[1] a) => (float[1,2] y) {
      [product] y = com.microsoft.MatMulBnb4<K = 16, N = 2, quant_type = 1, block_size = 16>(x, b, a)
    })",
                         17, 8, ", \"com.microsoft\" : 1");
  const auto status = Dequantize(&model).status();
  EXPECT_EQ(base::GetReason(status), base::Reason::kModelUnsupported);
  EXPECT_THAT(std::string(status.message()), HasSubstr("MatMulBnb4 node 'product'"));
}

// Nobody checks the inputs of operators in foreign domains.
TEST(Dequantize, OperatorsWithoutTheirInputsGiveAModelOrAnError) {
  for (const char* op :
       {"QLinearAdd", "QLinearConcat", "QGemm", "QAttention", "MatMulNBits", "DynamicQuantizeLSTM",
        "QEmbedLayerNormalization", "GatherBlockQuantized", "MatMulIntegerToFloat", "MatMulBnb4",
        "MatMulFpQ4", "QMoE", "NhwcMaxPool", "DynamicQuantizeMatMul", "QuantizeLinear",
        "DequantizeLinear", "QLinearWhere"}) {
    SCOPED_TRACE(op);
    for (const char* inputs : {"", "x", "x, x", "x, x, x, x"}) {
      auto model = TestModel("g (float[1,4] x) => (float[1,4] y) { y = com.microsoft." +
                                 std::string(op) + "(" + inputs + ") }",
                             17, 8, ", \"com.microsoft\" : 1");
      const auto status = Dequantize(&model).status();
      if (status.ok()) {
        ExpectAllFloat(model);
      } else {
        EXPECT_NE(base::GetReason(status), base::Reason::kInternal) << inputs << ": " << status;
      }
    }
  }
}

// Models in every scheme, quantized here from the golden vectors' float models.
class DequantizeSchemes : public testing::TestWithParam<const char*> {};

TEST_P(DequantizeSchemes, TheFloatModelComesBackCloserThanTheQuantizedOne) {
  GQ_NEED_VECTORS();
  for (const char* name : {"conv_bn_relu", "residual_ranges", "transformer", "swish"}) {
    if (!std::filesystem::exists(VectorFolder() / name)) continue;
    SCOPED_TRACE(name);
    const auto vectors = LoadCase(name, "pre_1.onnx");
    ASSERT_TRUE(vectors.ok()) << vectors.status();
    const auto config = ConfigOfScheme(GetParam());
    ASSERT_TRUE(config.ok()) << config.status();
    const auto quantized = QuantizeWith(vectors->prepared, *config, vectors->calibration);
    ASSERT_TRUE(quantized.ok()) << quantized.status();
    const auto stripped = Stripped(quantized->model);
    ExpectAllFloat(stripped);
    const auto reference = RunModel(vectors->prepared, vectors->evaluation);
    const auto before = RunModel(quantized->model, vectors->evaluation);
    const auto after = RunModel(stripped, vectors->evaluation);
    ASSERT_TRUE(reference.ok() && before.ok() && after.ok());
    EXPECT_GT(SignalToNoise(*reference, *after) + 1, SignalToNoise(*reference, *before));
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, DequantizeSchemes,
                         testing::Values("vint8", "bf16", "fp16", "xint8", "W8-A8", "W8-A16",
                                         "W8-A8_dynamic", "W4-A8_dynamic"),
                         [](const auto& test) {
                           std::string name;
                           for (const char c : std::string(test.param)) {
                             if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
                           }
                           return name;
                         });

}  // namespace
}  // namespace gq::quantize
