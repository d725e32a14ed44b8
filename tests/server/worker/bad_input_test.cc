// What users give by mistake: each gets a clear error with its exit code, and leaves nothing
// behind.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/server/worker/worker_process.h"

namespace gq::worker {
namespace {

class BadInputTest : public WorkerTest {
 protected:
  void SetUp() override {
    WorkerTest::SetUp();
    if (IsSkipped()) return;
    WriteConvModel("m.onnx");
    WriteSamples("calib.npy", 4);
  }

  std::vector<std::string> Quantize(const std::vector<std::string>& more = {},
                                    const std::string& model = "m.onnx",
                                    const std::string& data = "calib.npy") const {
    std::vector<std::string> arguments = {"quantize", "--model",  model,   "--calibration-data",
                                          data,       "--output", "q.onnx"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

TEST_F(BadInputTest, MissingModel) {
  ExpectError(Quantize({}, "none.onnx"), 2, "FILE_NOT_FOUND", {"none.onnx", "hint: "});
}

TEST_F(BadInputTest, MissingData) {
  ExpectError(Quantize({}, "m.onnx", "none.npz"), 2, "FILE_NOT_FOUND",
              {"none.npz", "--calibration-data"});
}

TEST_F(BadInputTest, NoModelFlag) {
  ExpectError({"quantize", "--calibration-data", "calib.npy"}, 2, "INVALID_FLAG", {"--model"});
}

TEST_F(BadInputTest, NotAProtobuf) {
  Write("text.onnx", "this is no model, it is a letter to somebody\n");
  ExpectError(Quantize({}, "text.onnx"), 2, "MODEL_INVALID", {"text.onnx"});
}

TEST_F(BadInputTest, EmptyModelFile) {
  Write("empty.onnx", "");
  ExpectError(Quantize({}, "empty.onnx"), 2, "MODEL_INVALID", {"empty.onnx"});
}

TEST_F(BadInputTest, TruncatedModel) {
  const std::string bytes = Text("m.onnx");
  Write("half.onnx", bytes.substr(0, bytes.size() / 2));
  ExpectError(Quantize({}, "half.onnx"), 2, "MODEL_INVALID", {"half.onnx"});
}

TEST_F(BadInputTest, ModelWithAMissingTensor) {
  WriteModel("gap.onnx", "g (float[1,4] x) => (float[1,4] y) { y = Add(x, nowhere) }");
  ExpectError(Quantize({}, "gap.onnx"), 2, "MODEL_INVALID", {"nowhere"});
}

TEST_F(BadInputTest, FolderAsModel) {
  std::filesystem::create_directory(Path("folder.onnx"));
  ExpectError(Quantize({}, "folder.onnx"), 2, "FILE_UNREADABLE", {"folder.onnx"});
}

TEST_F(BadInputTest, UnknownFlag) {
  ExpectError(Quantize({"--calibrationdata", "calib.npy"}), 2, "INVALID_FLAG",
              {"--calibrationdata", "--calibration-data"});
}

TEST_F(BadInputTest, UnknownCommand) {
  ExpectError({"quantise", "--model", "m.onnx"}, 2, "INVALID_FLAG", {"quantise", "quantize"});
}

TEST_F(BadInputTest, UnknownScheme) {
  ExpectError(Quantize({"--scheme", "vint9"}), 2, "SCHEME_ILLEGAL", {"vint9", "vint8"});
}

TEST_F(BadInputTest, UnknownMethod) {
  ExpectError(Quantize({"--calibration-method", "minimax"}), 2, "INVALID_FLAG",
              {"minimax", "minmax"});
}

TEST_F(BadInputTest, MethodThatTheSchemeCannotUse) {
  ExpectError(Quantize({"--scheme", "vint8", "--calibration-method", "entropy"}), 2, "INVALID_FLAG",
              {"entropy", "vint8", "minmse"});
}

TEST_F(BadInputTest, UnreadableTarget) {
  ExpectError(Quantize({"--target-accuracy", "quality>3"}), 2, "TARGET_INVALID",
              {"quality", "psnr"});
}

TEST_F(BadInputTest, TargetWithoutClasses) {
  WriteModel("one.onnx",
             "g (float[1,4] x) => (float[1,1] y) <float[4,1] w = {0.5, 0.25, -0.5, 1}> "
             "{ y = MatMul(x, w) }");
  WriteSamples("one.npy", 4, 0, {4});
  ExpectError(Quantize({"--target-accuracy", "top1>=99%"}, "one.onnx", "one.npy"), 2,
              "TARGET_INVALID", {"top1"});
}

TEST_F(BadInputTest, SchemeThatTheDeviceDoesNotTake) {
  ExpectError(Quantize({"--scheme", "vint8", "--device", "ethos-u55"}), 2, "SCHEME_ILLEGAL",
              {"vint8", "ethos-u55"});
}

TEST_F(BadInputTest, LimitOfASearch) {
  ExpectError({"explore", "--model", "m.onnx", "--explore-limit", "speed=3"}, 2, "INVALID_FLAG",
              {"speed=3", "max_share"});
}

TEST_F(BadInputTest, CalibrationDataOfAnotherShape) {
  WriteSamples("wrong.npy", 4, 0, {3, 5, 5});
  ExpectError(Quantize({}, "m.onnx", "wrong.npy"), 2, "DATA_SHAPE_MISMATCH",
              {"wrong.npy", "[1, 2, 4, 4]"});
}

TEST_F(BadInputTest, CalibrationDataOfAnotherType) {
  const std::vector<int64_t> values(32, 1);
  ASSERT_TRUE(
      runtime::WriteNpy(Path("ints.npy"), runtime::Tensor::Of<int64_t>({1, 2, 4, 4}, values)).ok());
  ExpectError(Quantize({}, "m.onnx", "ints.npy"), 2, "DATA_TYPE_MISMATCH",
              {"ints.npy", "int64", "float32"});
}

TEST_F(BadInputTest, CalibrationDataForAnotherInput) {
  std::filesystem::copy(std::filesystem::path("tests/data/worker/wrong_key.npz"),
                        Path("wrong_key.npz"));
  ExpectError(Quantize({}, "m.onnx", "wrong_key.npz"), 2, "DATA_KEY_MISMATCH",
              {"wrong_key.npz", "image", "x"});
}

TEST_F(BadInputTest, EmptyFolderOfData) {
  std::filesystem::create_directory(Path("nothing"));
  ExpectError(Quantize({}, "m.onnx", "nothing"), 2, "DATA_EMPTY", {"nothing"});
}

TEST_F(BadInputTest, DamagedData) {
  Write("text.npy", "no array");
  ExpectError(Quantize({}, "m.onnx", "text.npy"), 2, "DATA_INVALID", {"text.npy"});
}

TEST_F(BadInputTest, NanInASample) {
  WriteSamples("nan.npy", 4, std::nanf(""));
  ExpectError(Quantize({}, "m.onnx", "nan.npy"), 2, "DATA_NONFINITE",
              {"nan.npy", "x", "3", "--allow-nonfinite"});
}

TEST_F(BadInputTest, InfinityInEveryAllowedSample) {
  WriteSamples("inf.npy", 1, std::numeric_limits<float>::infinity());
  ExpectError(Quantize({"--allow-nonfinite"}, "m.onnx", "inf.npy"), 2, "DATA_EMPTY", {});
}

TEST_F(BadInputTest, DimensionsThatStayDynamic) {
  WriteModel("dynamic.onnx", "g (float[1,2,H,W] x) => (float[1,2,H,W] y) { y = Relu(x) }");
  ExpectError({"quantize", "--model", "dynamic.onnx", "--output", "q.onnx"}, 2, "DYNAMIC_SHAPE",
              {"x", "--input-shape"});
}

TEST_F(BadInputTest, TheDataFixesOpenDimensions) {
  WriteModel("dynamic.onnx", "g (float[N,2,H,W] x) => (float[N,2,H,W] y) { y = Relu(x) }");
  const Outcome outcome = Run(Quantize({}, "dynamic.onnx"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("input 'x' [N, 2, H, W] gets its shape [1, 2, 4, 4] from the data"),
            std::string::npos)
      << outcome.out;
}

TEST_F(BadInputTest, SamplesOfSeveralShapesFixNothing) {
  WriteModel("dynamic.onnx", "g (float[N,2,H,W] x) => (float[N,2,H,W] y) { y = Relu(x) }");
  WriteSamples("two/a.npy", 2);
  WriteSamples("two/b.npy", 2, 0, {2, 6, 4});
  ExpectError(Quantize({}, "dynamic.onnx", "two"), 2, "DYNAMIC_SHAPE",
              {"a.npy", "b.npy", "[1, 2, 4, 4]", "[1, 2, 6, 4]", "--input-shape x="});
}

TEST_F(BadInputTest, InputShapeOfAnUnknownInput) {
  ExpectError(Quantize({"--input-shape", "image=1x2x4x4"}), 2, "INVALID_FLAG", {"image", "x"});
}

TEST_F(BadInputTest, UnreadableInputShape) {
  ExpectError(Quantize({"--input-shape", "x=1x2xfour"}), 2, "INVALID_FLAG", {"x=1x2xfour"});
}

TEST_F(BadInputTest, ModelThatIsQuantizedAlready) {
  WriteModel("qdq.onnx",
             "g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float s = {0.5}, int8 z = {0}> "
             "{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }");
  ExpectError(Quantize({}, "qdq.onnx"), 2, "ALREADY_QUANTIZED", {"--mode requantize"});
}

TEST_F(BadInputTest, ExcludedNodeThatDoesNotExist) {
  ExpectError(Quantize({"--exclude", "no_such_node"}), 2, "PATTERN_UNMATCHED", {"no_such_node"});
}

TEST_F(BadInputTest, ConfigurationThatIsNoJson) {
  Write("c.json", "{\"global_quant_config\": [1,}");
  ExpectError(Quantize({"--config", "c.json"}), 2, "CONFIG_INVALID", {"c.json", "line 1"});
}

TEST_F(BadInputTest, OutputInAFolderThatDoesNotExist) {
  ExpectError({"quantize", "--model", "m.onnx", "--calibration-data", "calib.npy", "--output",
               "no/such/q.onnx"},
              2, "FILE_UNWRITABLE", {"no/such"});
}

TEST_F(BadInputTest, ReportInAFolderThatDoesNotExist) {
  ExpectError(Quantize({"--report", "no/r.json"}), 2, "FILE_UNWRITABLE", {"no/r.json"});
}

TEST_F(BadInputTest, LabelsThatDoNotFit) {
  const std::vector<int64_t> labels = {1, 2, 3};
  ASSERT_TRUE(
      runtime::WriteNpy(Path("labels.npy"), runtime::Tensor::Of<int64_t>({3}, labels)).ok());
  WriteModel("class.onnx",
             "g (float[1,4] x) => (float[1,4] y) <float[4,4] w = {1,0,0,0, 0,1,0,0, 0,0,1,0, "
             "0,0,0,1}> { y = MatMul(x, w) }");
  WriteSamples("four.npy", 4, 0, {4});
  ExpectError(Quantize({"--evaluation-data", "four.npy", "--labels", "labels.npy"}, "class.onnx",
                       "four.npy"),
              2, "DATA_SHAPE_MISMATCH", {"3 labels", "4"});
}

TEST_F(BadInputTest, EvaluationOfModelsWithOtherInputs) {
  WriteModel("other.onnx", "g (float[1,4] z) => (float[1,4] y) { y = Relu(z) }");
  ExpectError({"evaluate", "--model", "other.onnx", "--reference", "m.onnx", "--evaluation-data",
               "calib.npy"},
              2, "MODEL_INVALID", {"input 'z'"});
}

TEST_F(BadInputTest, MissingRuntimeLibrary) {
  ExpectError(Quantize({"--onnxruntime", "no_such_library.so"}), 1, "RUNTIME_MISSING",
              {"no_such_library.so"});
}

// A file that was there before a failed run is still there, as it was.
TEST_F(BadInputTest, AnErrorLeavesAnOlderOutputAlone) {
  Write("q.onnx", "older");
  WriteSamples("nan.npy", 4, std::nanf(""));
  EXPECT_NE(Run(Quantize({}, "m.onnx", "nan.npy")).code, 0);
  EXPECT_EQ(Text("q.onnx"), "older");
}

TEST_F(BadInputTest, ErrorsAreObjectsWithJson) {
  const Outcome outcome = Run(Quantize({"--json"}, "none.onnx"));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.out.find("{\"error\":{"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("\"reason\":\"FILE_NOT_FOUND\""), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace gq::worker
