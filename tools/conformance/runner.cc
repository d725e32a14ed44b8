#include "tools/conformance/runner.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/model.h"
#include "common/graph/optimize.h"
#include "common/quantize/preparation.h"
#include "common/quantize/quantize.h"
#include "common/runtime/constant_evaluator.h"
#include "common/runtime/data_set.h"
#include "common/runtime/npz.h"
#include "common/runtime/session.h"

namespace gq::conformance {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using nlohmann::json;
using Arrays = std::map<std::string, runtime::Tensor>;

absl::StatusOr<json> ReadJson(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) {
    return MakeError(Reason::kFileNotFound, StrCat("'", path.string(), "' cannot be read"),
                     "Name a folder of golden vectors (with index.json).");
  }
  json document = json::parse(file, nullptr, false);
  if (document.is_discarded()) {
    return MakeError(Reason::kDataInvalid, StrCat("'", path.string(), "' is not JSON"));
  }
  return document;
}

absl::StatusOr<graph::Model> Load(const std::filesystem::path& path) {
  return graph::LoadModel(path, {.check = false, .normalize = false});
}

// Ranges of the vectors in the form of a calibration.
calibrate::CalibrationTable TableOf(const json& expected) {
  calibrate::CalibrationTable table;
  using calibrate::Method;
  for (const Method method : {Method::kMinMax, Method::kMovingAverage, Method::kNonOverflow,
                              Method::kMinMse, Method::kPercentile, Method::kEntropy,
                              Method::kDistribution, Method::kLayerwisePercentile}) {
    table.methods.push_back(calibrate::MethodSpec::Default(method));
  }
  const json ranges = expected.value("calibrated_ranges", json::object());
  for (const auto& [name, range] : ranges.items()) {
    if (!range[0].is_number() || !range[1].is_number()) continue;
    auto& entry = table.tensors[name];
    entry.ranges.assign(table.methods.size(), {range[0].get<float>(), range[1].get<float>()});
  }
  return table;
}

// Runs every sample; arrays of [samples] + shape by output name.
absl::StatusOr<Arrays> RunSamples(const graph::Model& model, const std::filesystem::path& samples) {
  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kNone;
  options.disable_quant_qdq = false;
  GQ_ASSIGN_OR_RETURN(const auto specs, runtime::InputSpecs(model));
  GQ_ASSIGN_OR_RETURN(const auto data, runtime::DataSet::Open(std::span(&samples, 1), specs));
  GQ_ASSIGN_OR_RETURN(const auto session, runtime::Session::Create(model, options));
  Arrays results;
  for (int64_t index = 0; index < data->size(); ++index) {
    std::vector<runtime::Tensor> inputs;
    std::vector<runtime::Tensor> outputs;
    GQ_RETURN_IF_ERROR(data->Read(index, &inputs).status());
    GQ_RETURN_IF_ERROR(session.Run(inputs, &outputs));
    for (size_t i = 0; i < outputs.size(); ++i) {
      runtime::Tensor& all = results[session.outputs()[i].name];
      if (index == 0) {
        std::vector<int64_t> shape = outputs[i].shape();
        shape.insert(shape.begin(), data->size());
        all = runtime::Tensor(outputs[i].dtype(), shape);
      }
      const auto bytes = outputs[i].bytes();
      std::memcpy(all.mutable_bytes().data() + static_cast<size_t>(index) * bytes.size(),
                  bytes.data(), bytes.size());
    }
  }
  return results;
}

Arrays OutputsOf(const Arrays& arrays, const std::string& configuration) {
  Arrays outputs;
  const std::string prefix = configuration + "|";
  for (const auto& [key, array] : arrays) {
    if (key.starts_with(prefix)) outputs.emplace(key.substr(prefix.size()), array);
  }
  return outputs;
}

std::map<std::string, double> OutputSteps(const json& expected) {
  std::map<std::string, double> steps;
  for (const auto& [name, entry] : expected.at("qdq").items()) {
    if (entry.contains("scale") && entry["scale"].size() == 1) {
      steps[name] = entry["scale"][0].get<double>();
    }
  }
  return steps;
}

class CaseRunner {
 public:
  CaseRunner(std::filesystem::path folder, const json& entry, const RunOptions& options)
      : folder_(std::move(folder)), entry_(entry), options_(options) {}

  absl::Status Prepare() {
    name_ = entry_.at("case").get<std::string>();
    folder_ /= name_;
    targets_.exclude = entry_.value("exclude", std::vector<std::string>());
    targets_.mixed_pattern = entry_.value("mixed_pattern", std::vector<std::string>());
    GQ_ASSIGN_OR_RETURN(original_, Load(folder_ / "model.onnx"));
    GQ_ASSIGN_OR_RETURN(outputs_, runtime::ReadNpz(folder_ / "outputs.npz"));
    return absl::OkStatus();
  }

  RunResult Run(const std::string& configuration) {
    RunResult result{.case_name = name_, .configuration = configuration};
    const auto expected = ReadJson(folder_ / StrCat("expected.", configuration, ".json"));
    const auto config = ConfigurationNamed(configuration, targets_);
    if (!expected.ok() || !config.ok()) {
      result.outcome = Outcome::kUnsupported;
      result.note = std::string((expected.ok() ? config.status() : expected.status()).message());
      return result;
    }
    Compare(*expected, *config, &result);
    if (!result.verdict.agrees()) result.outcome = Outcome::kDiffers;
    return result;
  }

 private:
  void Compare(const json& expected, const quantize::QuantizeConfig& config, RunResult* result) {
    const bool failed = expected.at("status").get<std::string>() != "ok";
    const auto quantized = Quantize(expected, config);
    if (!quantized.ok()) {
      const std::string message(quantized.status().message());
      if (failed) {
        result->note = StrCat("fails as Quark does: ", message);
      } else if (base::GetReason(quantized.status()) == Reason::kNotAvailable) {
        result->outcome = Outcome::kUnsupported;
        result->note = message;
      } else {
        result->verdict.differences[Aspect::kStatus] = message;
      }
      return;
    }
    Emit(*quantized, result->configuration);
    if (failed) {
      result->note = "succeeds where Quark fails";
      return;
    }
    CompareModel(*quantized, expected, options_.from_model, &result->verdict);
    CompareRun(*quantized, expected, result);
  }

  absl::StatusOr<graph::Model> Quantize(const json& expected,
                                        const quantize::QuantizeConfig& config) {
    quantize::ModelOrigin origin;
    origin.graph = &original_.graph();
    graph::Model model;
    if (options_.from_model) {
      GQ_ASSIGN_OR_RETURN(model, Prepared(config, &origin));
    } else {
      GQ_ASSIGN_OR_RETURN(model, Load(folder_ / expected.at("preprocessed").get<std::string>()));
    }
    GQ_ASSIGN_OR_RETURN(const auto specs, runtime::InputSpecs(model));
    const std::filesystem::path samples = folder_ / "calib.npz";
    GQ_ASSIGN_OR_RETURN(const auto data, runtime::DataSet::Open(std::span(&samples, 1), specs));
    base::NullReporter reporter;
    calibrate::CalibrationTable table;
    quantize::QuantizeInputs inputs{.origin = &origin};
    if (options_.expected_ranges) {
      table = TableOf(expected);
      inputs.table = &table;
    }
    GQ_ASSIGN_OR_RETURN(auto result, quantize::Quantize(model, config, *data, reporter, inputs));
    return std::move(result.model);
  }

  // The float model as the graph optimizer prepares it.
  absl::StatusOr<graph::Model> Prepared(const quantize::QuantizeConfig& config,
                                        quantize::ModelOrigin* origin) {
    GQ_ASSIGN_OR_RETURN(graph::Model model, graph::LoadModel(folder_ / "model.onnx"));
    const graph::OptimizeOptions options = quantize::PreparationFor(config);
    runtime::OrtConstantEvaluator evaluator;
    base::NullReporter reporter;
    GQ_ASSIGN_OR_RETURN(const auto report,
                        graph::OptimizeGraph(model, options, evaluator, reporter));
    origin->renamed_nodes = report.renamed_nodes;
    return model;
  }

  void CompareRun(const graph::Model& model, const json& expected, RunResult* result) {
    const Arrays wanted = OutputsOf(outputs_, result->configuration);
    if (wanted.empty()) {
      result->verdict.not_compared[Aspect::kOutputs] = "the vectors have none";
      return;
    }
    const auto outputs = RunSamples(model, folder_ / "eval.npz");
    if (!outputs.ok()) {
      result->verdict.differences[Aspect::kOutputs] = std::string(outputs.status().message());
      return;
    }
    CompareOutputs(*outputs, wanted, OutputSteps(expected), ClosenessOf(result->configuration),
                   &result->verdict);
  }

  void Emit(const graph::Model& model, const std::string& configuration) const {
    if (options_.emit.empty()) return;
    std::filesystem::create_directories(options_.emit / name_);
    const auto status =
        graph::SaveModel(model, options_.emit / name_ / StrCat(configuration, ".onnx"));
    if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  }

  std::filesystem::path folder_;
  const json& entry_;
  const RunOptions& options_;
  std::string name_;
  CaseTargets targets_;
  graph::Model original_;
  Arrays outputs_;
};

bool Wanted(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

absl::Status RunVectors(const std::filesystem::path& folder, const RunOptions& options,
                        const std::function<void(const RunResult&)>& done) {
  GQ_ASSIGN_OR_RETURN(const json index, ReadJson(folder / "index.json"));
  if (!index.contains("cases")) {
    return MakeError(Reason::kDataInvalid, "index.json has no list of cases");
  }
  int runs = 0;
  for (const auto& entry : index["cases"]) {
    if (!Wanted(options.cases, entry.at("case").get<std::string>())) continue;
    CaseRunner runner(folder, entry, options);
    GQ_RETURN_IF_ERROR(runner.Prepare());
    for (const auto& [configuration, value] : entry.at("configurations").items()) {
      if (!Wanted(options.configurations, configuration)) continue;
      done(runner.Run(configuration));
      ++runs;
    }
  }
  if (runs == 0) {
    return MakeError(Reason::kInvalidFlag, "No case has such a name or configuration",
                     "index.json of the folder lists them.");
  }
  return absl::OkStatus();
}

}  // namespace gq::conformance
