// The graphs of forms/ and refused/: every form that the ONNX language allows and users' exporters
// produce is quantized into a valid model, every broken one is refused with a reason and a hint.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/model.h"
#include "common/runtime/data_set.h"
#include "common/runtime/session.h"
#include "server/worker/steps/graph_optimize.h"
#include "server/worker/steps/graph_quantize.h"
#include "tests/temporary_folder.h"

namespace gq::hard {
namespace {

namespace fs = std::filesystem;
using base::StrCat;

constexpr double kLeastPsnr = 15;

// Remarks in front of a form: "# key: value".
std::string Remark(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  const std::string start = StrCat("# ", key, ": ");
  for (std::string line; std::getline(file, line) && line.starts_with('#');) {
    if (line.starts_with(start)) return line.substr(start.size());
  }
  return "";
}

std::vector<fs::path> FilesOf(const char* folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string NameOf(const testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.stem().string();
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

class FormTest : public testing::TestWithParam<fs::path> {
 protected:
  absl::Status Quantize() {
    worker::JobInputs inputs;
    inputs.model = GetParam();
    inputs.spec.set_scheme("vint8");
    inputs.spec.set_seed(1);
    if (const std::string shape = Remark(GetParam(), "input-shape"); !shape.empty()) {
      inputs.spec.add_input_shape(shape);
    }
    base::NullReporter quiet;
    worker::StepLog log(quiet);
    GQ_ASSIGN_OR_RETURN(optimized_, worker::RunGraphOptimize(inputs, log));
    GQ_ASSIGN_OR_RETURN(quantized_,
                        worker::RunGraphQuantize(inputs, optimized_, folder_ / "q.onnx", log));
    return absl::OkStatus();
  }

  const tests::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  worker::GraphOptimizeResult optimized_;
  worker::GraphQuantizeResult quantized_;
};

using AcceptedForm = FormTest;
using RefusedForm = FormTest;

double Psnr(const std::vector<double>& reference, const std::vector<double>& got) {
  double sum = 0;
  double peak = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    if (!std::isfinite(reference[i]) && (reference[i] == got[i] || std::isnan(got[i]))) continue;
    sum += (reference[i] - got[i]) * (reference[i] - got[i]);
    if (std::isfinite(reference[i])) peak = std::max(peak, std::fabs(reference[i]));
  }
  if (sum == 0) return INFINITY;
  return 10 * std::log10(peak * peak * static_cast<double>(reference.size()) / sum);
}

TEST_P(AcceptedForm, BecomesAValidQuantizedModel) {
  const absl::Status status = Quantize();
  ASSERT_TRUE(status.ok()) << status;
  const auto written = graph::LoadModel(folder_ / "q.onnx");
  ASSERT_TRUE(written.ok()) << written.status();
  const auto& before = optimized_.user_model.graph();
  const auto& after = quantized_.emitted.graph();
  ASSERT_EQ(after.input_size(), before.input_size());
  ASSERT_EQ(after.output_size(), before.output_size());
  for (int i = 0; i < before.output_size(); ++i) {
    EXPECT_EQ(after.output(i).name(), before.output(i).name());
    EXPECT_EQ(after.output(i).type().tensor_type().elem_type(),
              before.output(i).type().tensor_type().elem_type());
  }

  const auto specs = runtime::InputSpecs(quantized_.emitted);
  ASSERT_TRUE(specs.ok()) << specs.status();
  const auto data = runtime::DataSet::Random(*specs, {.num_samples = 4, .seed = 1});
  ASSERT_TRUE(data.ok()) << data.status();
  const auto reference = runtime::Session::Create(optimized_.float_model);
  const auto candidate = runtime::Session::CreateFromFile(folder_ / "q.onnx");
  ASSERT_TRUE(reference.ok()) << reference.status();
  ASSERT_TRUE(candidate.ok()) << candidate.status();
  std::vector<std::vector<double>> expected(reference->outputs().size());
  std::vector<std::vector<double>> found(expected.size());
  for (int64_t s = 0; s < (*data)->size(); ++s) {
    std::vector<runtime::Tensor> inputs;
    ASSERT_TRUE((*data)->Read(s, &inputs).ok());
    const auto add = [&](const runtime::Session& session, auto* all) {
      std::vector<runtime::Tensor> outputs;
      const auto run = session.Run(inputs, &outputs);
      ASSERT_TRUE(run.ok()) << run;
      for (size_t o = 0; o < outputs.size(); ++o) {
        if (!graph::IsFloatType(outputs[o].dtype())) continue;
        const auto values = outputs[o].View().ToDoubles();
        ASSERT_TRUE(values.ok()) << values.status();
        (*all)[o].insert((*all)[o].end(), values->begin(), values->end());
      }
    };
    add(*reference, &expected);
    add(*candidate, &found);
  }
  const std::string floor = Remark(GetParam(), "psnr");
  const double least = floor.empty() ? kLeastPsnr : std::strtod(floor.c_str(), nullptr);
  for (size_t o = 0; o < expected.size(); ++o) {
    ASSERT_EQ(found[o].size(), expected[o].size());
    EXPECT_GE(Psnr(expected[o], found[o]), least) << reference->outputs()[o].name;
  }
}

TEST_P(RefusedForm, GetsAReasonAndAHint) {
  const absl::Status status = Quantize();
  ASSERT_FALSE(status.ok());
  const std::string expected = Remark(GetParam(), "reason");
  EXPECT_EQ(base::ReasonName(base::GetReason(status)), expected) << status;
  EXPECT_NE(base::FromAbsl(status.message()).find(Remark(GetParam(), "mentions")),
            std::string_view::npos)
      << status;
  EXPECT_FALSE(base::GetHint(status).empty()) << status;
  EXPECT_FALSE(fs::exists(folder_ / "q.onnx"));
}

INSTANTIATE_TEST_SUITE_P(Forms, AcceptedForm, testing::ValuesIn(FilesOf("tests/hard/forms")),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Forms, RefusedForm, testing::ValuesIn(FilesOf("tests/hard/refused")),
                         NameOf);

}  // namespace
}  // namespace gq::hard
