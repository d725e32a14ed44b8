#include "tests/hard/case_judge.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <set>

#include "common/base/text.h"
#include "common/graph/graph_index.h"
#include "common/graph/model.h"
#include "common/runtime/npz.h"
#include "common/runtime/session.h"

namespace gq::hard {
namespace {

using base::StrCat;
using nlohmann::json;
using Arrays = std::map<std::string, runtime::Tensor>;
using Names = std::set<std::string, std::less<>>;

// Float operators and the integer operators that replace them.
const std::map<std::string, std::pair<Names, Names>>& Families() {
  static const std::map<std::string, std::pair<Names, Names>> families = {
      {"MatMul",
       {{"MatMul", "Gemm", "FusedMatMul", "FusedGemm"},
        {"MatMulInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QLinearMatMul",
         "MatMulNBits", "QGemm"}}},
      {"Conv", {{"Conv", "FusedConv"}, {"ConvInteger", "QLinearConv"}}},
      {"ConvTranspose", {{"ConvTranspose"}, {"QLinearConvTranspose"}}}};
  return families;
}

bool Matches(const std::string& text, const json& pattern) {
  return std::regex_search(
      text, std::regex(pattern.get<std::string>(), std::regex::ECMAScript | std::regex::icase));
}

bool MatchesAny(const std::string& text, const json& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const json& pattern) { return Matches(text, pattern); });
}

void VisitNodes(const onnx::GraphProto& graph,
                const std::function<void(const onnx::NodeProto&)>& visit) {
  for (const auto& node : graph.node()) {
    visit(node);
    graph::ForEachSubgraph(node, [&](const auto& inner) { VisitNodes(inner, visit); });
  }
}

bool IsQdq(const onnx::NodeProto& node) {
  return node.op_type() == "QuantizeLinear" || node.op_type() == "DequantizeLinear";
}

std::vector<double> Doubles(const runtime::Tensor& tensor) {
  auto values = tensor.View().ToDoubles();
  return values.ok() ? *std::move(values) : std::vector<double>();
}

double Psnr(const std::vector<double>& reference, const std::vector<double>& got) {
  if (reference.size() != got.size() || reference.empty()) return -999;
  double sum = 0;
  double peak = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    sum += (reference[i] - got[i]) * (reference[i] - got[i]);
    peak = std::max(peak, std::fabs(reference[i]));
  }
  if (!std::isfinite(sum)) return -999;
  if (sum == 0) return 999;
  const double mse = sum / static_cast<double>(reference.size());
  return 10 * std::log10(std::max(peak * peak, 1e-60) / mse);
}

class Judge {
 public:
  Judge(const CaseRun& run, const ProgramRun& program) : run_(run), program_(program) {}

  std::vector<std::string> Run() {
    const std::string outcome = run_.expect.at("outcome");
    const bool written = std::filesystem::exists(run_.output);
    const bool worked = (program_.code == 0 || program_.code == 10) && written;
    if (program_.code >= 128) Fail(StrCat("ended by signal ", program_.code - 128));
    if (outcome == "error" || (outcome == "either" && !worked)) {
      if (worked) Fail("an error was expected");
      if (written) Fail("an error leaves an output behind");
      Mentions();
      return failures_;
    }
    if (!worked) {
      Fail(StrCat("success was expected, the exit code is ", program_.code));
      return failures_;
    }
    if (!Load()) return failures_;
    for (const json& check : run_.expect.at("checks")) Check(check);
    return failures_;
  }

 private:
  using CheckFunction = void (Judge::*)(const json&);

  void Fail(std::string what) { failures_.push_back(std::move(what)); }

  void Mentions() {
    for (const json& alternatives : run_.expect.at("mentions")) {
      if (!MatchesAny(program_.text, alternatives)) {
        Fail(StrCat("the text does not mention ", alternatives.dump()));
      }
    }
    static const std::regex crash("terminate called|Segmentation fault|core dumped|Sanitizer");
    if (std::regex_search(program_.text, crash)) Fail("the text tells of a crash");
  }

  std::filesystem::path CasePath(const char* key) const {
    return run_.root / run_.test_case.at("id").get<std::string>() /
           run_.test_case.at(key).get<std::string>();
  }

  bool Load() {
    const graph::LoadOptions as_it_is = {.check = false, .normalize = false};
    auto given = graph::LoadModel(CasePath("model"), as_it_is);
    auto written = graph::LoadModel(run_.output, as_it_is);
    if (!given.ok() || !written.ok()) {
      Fail(StrCat("cannot be loaded: ", given.status().ToString(), written.status().ToString()));
      return false;
    }
    given_ = *std::move(given);
    written_ = *std::move(written);
    for (const auto& tensor : written_.graph().initializer()) constants_[tensor.name()] = &tensor;
    VisitNodes(written_.graph(), [&](const onnx::NodeProto& node) {
      nodes_.push_back(&node);
      for (const auto& output : node.output()) producers_[output] = &node;
      const auto* value = graph::FindAttribute(node, "value");
      if (node.op_type() == "Constant" && value != nullptr) {
        constants_[node.output(0)] = &value->t();
      }
    });
    return true;
  }

  // All samples one after the other, stacked; false when the model does not run.
  bool Compute() {
    if (computed_) return !outputs_.empty();
    computed_ = true;
    const auto data = runtime::ReadNpz(CasePath("evaluation"));
    const auto session = runtime::Session::CreateFromFile(
        run_.output, {.optimization = runtime::OptimizationLevel::kBasic});
    if (!data.ok() || !session.ok()) {
      Fail(StrCat("cannot be run: ", data.status().ToString(), session.status().ToString()));
      return false;
    }
    int64_t samples = INT64_MAX;
    for (const auto& [name, array] : *data) samples = std::min(samples, array.shape().at(0));
    for (int64_t i = 0; i < samples; ++i) {
      std::vector<runtime::Tensor> results;
      if (const auto status = RunSample(*session, *data, i, &results); !status.ok()) {
        Fail(StrCat("does not run: ", status.ToString()));
        return false;
      }
      for (size_t o = 0; o < results.size(); ++o) {
        auto& values = outputs_[session->outputs()[o].name];
        const auto more = Doubles(results[o]);
        values.insert(values.end(), more.begin(), more.end());
        shapes_[session->outputs()[o].name] = results[o].shape();
      }
    }
    return true;
  }

  static absl::Status RunSample(const runtime::Session& session, const Arrays& data, int64_t index,
                                std::vector<runtime::Tensor>* results) {
    std::vector<runtime::Tensor> inputs;
    for (const auto& input : session.inputs()) {
      const auto& array = data.at(input.name);
      const auto row = array.bytes().size() / static_cast<size_t>(array.shape()[0]);
      auto shape = array.shape();
      shape[0] = 1;
      inputs.push_back(runtime::Tensor::Borrow(
          array.dtype(), shape, array.bytes().subspan(static_cast<size_t>(index) * row, row),
          array.owner()));
    }
    return session.Run(inputs, results);
  }

  struct Pair {
    std::vector<double> reference;
    std::vector<double> got;
    std::vector<int64_t> shape;  // of one sample
  };

  std::optional<Pair> Output(const json& check) {
    if (!Compute()) return std::nullopt;
    const int number = check.value("output", 0);
    const std::string name = run_.test_case.at("reference").at("outputs").at(number);
    const auto reference =
        runtime::ReadNpz(run_.root / run_.test_case.at("id").get<std::string>() / "ref.npz");
    const std::string key = StrCat("o", number);
    if (!reference.ok() || !reference->contains(key) || !outputs_.contains(name)) {
      Fail(StrCat("output '", name, "' is missing"));
      return std::nullopt;
    }
    return Pair{Doubles(reference->at(key)), outputs_.at(name), shapes_.at(name)};
  }

  void Valid(const json&) {
    if (const auto status = graph::CheckModel(written_); !status.ok()) Fail(status.ToString());
    Compute();
  }

  void Runs(const json&) { Compute(); }

  void Finite(const json&) {
    Compute();
    for (const auto& [name, values] : outputs_) {
      if (!std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); })) {
        Fail(StrCat("'", name, "' is not finite"));
      }
    }
  }

  void IoSame(const json&) {
    const auto signature = [](const auto& values) {
      std::string text;
      for (const auto& value : values) {
        const auto& type = value.type().tensor_type();
        base::StrAppend(&text, value.name(), ":", type.elem_type(), ":", type.shape().dim_size(),
                        " ");
      }
      return text;
    };
    if (signature(given_.graph().input()) != signature(written_.graph().input()) ||
        signature(given_.graph().output()) != signature(written_.graph().output())) {
      Fail("inputs or outputs changed name, type, rank or order");
    }
  }

  void AtLeast(double value, const json& check) {
    if (value < check.at("min_db").get<double>()) {
      Fail(StrCat(check.dump(), ": PSNR is ", value, " dB"));
    }
  }

  void PsnrCheck(const json& check) {
    if (const auto pair = Output(check)) AtLeast(Psnr(pair->reference, pair->got), check);
  }

  void SlicePsnr(const json& check) {
    const auto pair = Output(check);
    if (!pair || pair->reference.size() != pair->got.size()) return;
    const auto axis = check.at("axis").get<size_t>();
    const auto start = check.at("start").get<int64_t>();
    const auto stop = check.at("stop").get<int64_t>();
    int64_t inner = 1;
    for (size_t i = axis + 1; i < pair->shape.size(); ++i) inner *= pair->shape[i];
    std::vector<double> reference;
    std::vector<double> got;
    for (size_t i = 0; i < pair->got.size(); ++i) {
      const int64_t along = static_cast<int64_t>(i) / inner % pair->shape.at(axis);
      if (along < start || along >= stop) continue;
      reference.push_back(pair->reference[i]);
      got.push_back(pair->got[i]);
    }
    AtLeast(Psnr(reference, got), check);
    if (std::all_of(got.begin(), got.end(), [](double v) { return v == 0; })) {
      Fail(StrCat(check.dump(), ": all values are zero"));
    }
  }

  void EqualFloat(const json& check) {
    const auto pair = Output(check);
    if (!pair) return;
    double largest = pair->reference.size() == pair->got.size() ? 0 : INFINITY;
    for (size_t i = 0; i < pair->got.size() && std::isfinite(largest); ++i) {
      largest = std::max(largest, std::fabs(pair->reference[i] - pair->got[i]));
    }
    if (largest > check.at("atol").get<double>()) {
      Fail(StrCat(check.dump(), ": largest difference ", largest));
    }
  }

  // Whether both operands come out of a DequantizeLinear, over nodes that only move data.
  bool IsFed(const onnx::NodeProto& node) const {
    static const Names movers = {"Transpose", "Reshape",   "Cast",   "Identity",
                                 "Squeeze",   "Unsqueeze", "Flatten"};
    int fed = 0;
    for (int i = 0; i < std::min(2, node.input_size()); ++i) {
      std::string tensor = node.input(i);
      for (int hop = 0; hop < 4; ++hop) {
        const auto producer = producers_.find(tensor);
        if (producer == producers_.end()) break;
        if (producer->second->op_type().ends_with("DequantizeLinear")) {
          ++fed;
          break;
        }
        if (!movers.contains(producer->second->op_type())) break;
        tensor = producer->second->input(0);
      }
    }
    return fed == 2;
  }

  void Quantized(const json& check) {
    for (const auto& [op, wanted] : check.at("ops").items()) {
      const Names& floats = Families().at(op).first;
      const Names& integers = Families().at(op).second;
      const auto count = std::count_if(nodes_.begin(), nodes_.end(), [&](const auto* node) {
        return integers.contains(node->op_type()) ||
               (floats.contains(node->op_type()) && IsFed(*node));
      });
      if (count < wanted.get<int64_t>()) {
        Fail(StrCat("quantized ", op, ": ", count, " of ", wanted.dump()));
      }
    }
  }

  void NotQuantized(const json& check) {
    for (const auto* node : nodes_) {
      const bool quantizes = IsQdq(*node) || node->op_type() == "DynamicQuantizeLinear";
      const auto& tensors = check.at("tensors");
      if (quantizes && std::find(tensors.begin(), tensors.end(), node->input(0)) != tensors.end()) {
        Fail(StrCat("'", node->input(0), "' is quantized"));
      }
    }
  }

  void NoIntegerQ(const json&) {
    const graph::GraphIndex index(written_.graph());
    for (const auto* node : nodes_) {
      if (node->op_type() != "QuantizeLinear" && node->op_type() != "DynamicQuantizeLinear")
        continue;
      const int32_t type = index.ElemType(node->input(0));
      if (type != 0 && !graph::IsFloatType(type))
        Fail(StrCat("'", node->input(0), "' is no float"));
    }
    for (const auto& tensor : given_.graph().initializer()) {
      if (graph::IsFloatType(tensor.data_type())) continue;
      for (const auto* node : nodes_) {
        if (node->op_type() == "DequantizeLinear" && node->input(0) == tensor.name()) {
          Fail(StrCat("the integers '", tensor.name(), "' are dequantized"));
        }
      }
    }
  }

  void FiniteScales(const json&) {
    for (const auto* node : nodes_) {
      if (!IsQdq(*node)) continue;
      const auto constant = constants_.find(node->input(1));
      if (constant == constants_.end()) continue;
      const auto view = written_.Data(*constant->second);
      const auto scales = view.ok() ? *view->ToDoubles() : std::vector<double>{NAN};
      if (!std::all_of(scales.begin(), scales.end(),
                       [](double scale) { return std::isfinite(scale) && scale > 0; })) {
        Fail(StrCat("scale '", node->input(1), "' is not above zero"));
      }
    }
  }

  void UniqueNodeNames(const json&) {
    Names seen;
    for (const auto* node : nodes_) {
      if (!node->name().empty() && !seen.insert(node->name()).second) {
        Fail(StrCat("two nodes are called '", node->name(), "'"));
      }
    }
  }

  void NoDangling(const json&) {
    Names used;
    for (const auto* node : nodes_) used.insert(node->input().begin(), node->input().end());
    for (const auto& output : written_.graph().output()) used.insert(output.name());
    for (const auto* node : nodes_) {
      if (IsQdq(*node) && (node->input(0).empty() || !used.contains(node->output(0)))) {
        Fail(StrCat("'", node->name(), "' hangs loose"));
      }
    }
  }

  void WeightAxis(const json& check) {
    int seen = 0;
    for (const auto* node : nodes_) {
      if (node->op_type() != check.at("node_op").get<std::string>()) continue;
      const auto producer = producers_.find(node->input(1));
      if (producer != producers_.end() && producer->second->op_type() == "DequantizeLinear") {
        const auto scale = constants_.find(producer->second->input(1));
        if (scale != constants_.end() && written_.Data(*scale->second)->size() > 1) {
          ++seen;
          const auto axis = graph::AttributeInt(*producer->second, "axis", 1);
          if (axis != check.at("axis").get<int64_t>()) Fail(StrCat("axis ", axis, " of weights"));
        }
      }
      if (check.value("first_only", false)) break;
    }
    if (seen == 0) Fail("no weights with a scale for each channel");
  }

  void NoOps(const json& check) {
    const auto& ops = check.at("ops");
    for (const auto* node : nodes_) {
      if (std::find(ops.begin(), ops.end(), node->op_type()) != ops.end()) {
        Fail(StrCat("there is still a ", node->op_type()));
      }
    }
  }

  void AllFloat(const json&) {
    for (const auto& [name, tensor] : constants_) {
      const int32_t type = tensor->data_type();
      if (graph::IsIntegerType(type) && graph::BitsPerElement(type) <= 16) {
        Fail(StrCat("'", name, "' still holds ", graph::DTypeName(type)));
      }
    }
  }

  void Says(const json& check) {
    if (!MatchesAny(program_.text, check.at("any"))) {
      Fail(StrCat("the text does not say ", check.at("any").dump()));
    }
  }

  void MaxSeconds(const json& check) {
    if (program_.seconds > check.at("value").get<double>()) {
      Fail(StrCat("took ", program_.seconds, " s"));
    }
  }

  void PeakMemory(const json& check) {
    if (program_.peak_mib > check.at("value").get<double>()) {
      Fail(StrCat("took ", program_.peak_mib, " MiB"));
    }
  }

  void Check(const json& check) {
    static const std::map<std::string, CheckFunction> checks = {
        {"valid", &Judge::Valid},
        {"runs", &Judge::Runs},
        {"finite", &Judge::Finite},
        {"io_same", &Judge::IoSame},
        {"psnr", &Judge::PsnrCheck},
        {"slice_psnr", &Judge::SlicePsnr},
        {"equal_float", &Judge::EqualFloat},
        {"quantized", &Judge::Quantized},
        {"not_quantized", &Judge::NotQuantized},
        {"no_integer_q", &Judge::NoIntegerQ},
        {"finite_scales", &Judge::FiniteScales},
        {"unique_node_names", &Judge::UniqueNodeNames},
        {"no_dangling", &Judge::NoDangling},
        {"weight_axis", &Judge::WeightAxis},
        {"no_ops", &Judge::NoOps},
        {"all_float", &Judge::AllFloat},
        {"says", &Judge::Says},
        {"max_seconds", &Judge::MaxSeconds},
        {"peak_rss_mib", &Judge::PeakMemory}};
    const std::string type = check.at("type");
    const auto known = checks.find(type);
    if (known == checks.end()) {
      Fail(StrCat("there is no check '", type, "'"));
      return;
    }
    (this->*known->second)(check);
  }

  const CaseRun& run_;
  const ProgramRun& program_;
  std::vector<std::string> failures_;
  graph::Model given_;
  graph::Model written_;
  std::vector<const onnx::NodeProto*> nodes_;
  std::map<std::string, const onnx::NodeProto*, std::less<>> producers_;
  std::map<std::string, const onnx::TensorProto*, std::less<>> constants_;
  bool computed_ = false;
  std::map<std::string, std::vector<double>> outputs_;
  std::map<std::string, std::vector<int64_t>> shapes_;
};

}  // namespace

std::vector<std::string> JudgeCase(const CaseRun& run, const ProgramRun& program) {
  return Judge(run, program).Run();
}

}  // namespace gq::hard
