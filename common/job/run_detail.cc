#include "common/job/run_detail.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::job {
namespace {

using base::StrCat;
using Kind = YamlNode::Kind;

constexpr double kDefaultPercentile = 99.9;

class DetailReader {
 public:
  DetailReader(std::string scheme, bool quantizes, RunFile* result)
      : scheme_(std::move(scheme)), quantizes_(quantizes), result_(result) {}

  absl::Status Read(const YamlPlace& root) {
    if (root.IsNull()) return absl::OkStatus();
    GQ_RETURN_IF_ERROR(root.ExpectKeys({"detail"}));
    if (!root.Has("detail")) return absl::OkStatus();
    const YamlPlace detail = root.At("detail");
    GQ_RETURN_IF_ERROR(detail.Expect(Kind::kMap));
    for (const auto& [key, value] : detail.node->entries) {
      const YamlPlace place = detail.At(key.text);
      if (key.text == "batch_size") {
        if (place.IsNull()) continue;
        GQ_ASSIGN_OR_RETURN(const int64_t batch, place.Integer("an integer from 1 to 65536"));
        if (batch < 1 || batch > 65536) return place.Error("expected an integer from 1 to 65536");
        result_->detail.set_batch_size(static_cast<int32_t>(batch));
      } else if (key.text == "mixed_precision") {
        if (!place.IsNull()) GQ_RETURN_IF_ERROR(MixedPrecision(place));
      } else if (key.text == "graph_quantize[0]") {
        if (!quantizes_) return place.Error("run.yaml has no graph_quantize step");
        if (!place.IsNull()) GQ_RETURN_IF_ERROR(Quantize(place));
      } else if (key.text.starts_with("graph_quantize")) {
        return place.Error(StrCat(
            "there is no such step: run.yaml has ",
            quantizes_ ? "one graph_quantize step, graph_quantize[0]" : "no graph_quantize step"));
      } else {
        GQ_RETURN_IF_ERROR(
            detail.ExpectKeys({"batch_size", "graph_quantize[0]", "mixed_precision"}));
      }
    }
    return absl::OkStatus();
  }

 private:
  bool Dynamic() const { return scheme_.ends_with("_dynamic"); }
  bool PowerOfTwo() const { return scheme_.starts_with("vint8") || scheme_ == "xint8"; }
  bool Float() const { return scheme_ == "bf16" || scheme_ == "fp16"; }

  absl::Status Quantize(const YamlPlace& step) {
    GQ_RETURN_IF_ERROR(step.ExpectKeys({"weight", "activation", "parameters"}));
    if (Float() && !step.node->entries.empty()) {
      return step.Error(StrCat("the scheme ", scheme_, " has no integers and so none of these"));
    }
    if (step.Has("weight")) GQ_RETURN_IF_ERROR(Weight(step.At("weight")));
    if (step.Has("activation")) GQ_RETURN_IF_ERROR(Activation(step.At("activation")));
    if (step.Has("parameters")) GQ_RETURN_IF_ERROR(Parameters(step.At("parameters")));
    return absl::OkStatus();
  }

  // The percentile of a side whose method is PERCENTILE; 0 for other methods.
  absl::StatusOr<double> Percentile(const YamlPlace& side, const std::string& method) {
    const bool percentile = method == "PERCENTILE";
    if (!side.Has("percentile")) return percentile ? kDefaultPercentile : 0;
    const YamlPlace place = side.At("percentile");
    if (!percentile) {
      return place.Error(StrCat("belongs to calibration_method PERCENTILE, which is ",
                                method.empty() ? "not set" : method, " here"));
    }
    return place.Number(50, 100, "a number above 50 and up to 100");
  }

  absl::Status Weight(const YamlPlace& weight) {
    GQ_RETURN_IF_ERROR(
        weight.ExpectKeys({"granularity", "calibration_method", "percentile", "group_size"}));
    gq::v1::QuantizeDetail& detail = result_->detail;
    if (weight.Has("granularity")) {
      const YamlPlace place = weight.At("granularity");
      GQ_ASSIGN_OR_RETURN(const std::string text, place.OneOf({"CHANNEL", "TENSOR"}));
      if (PowerOfTwo() && text != "TENSOR") {
        return place.Error(StrCat("the NPU takes one scale a tensor with the scheme ", scheme_,
                                  "; expected TENSOR"));
      }
      if (scheme_ == "W4-A8_dynamic") {
        return place.Error("4-bit weights have a scale for each group; set group_size");
      }
      detail.set_weight_granularity(text);
    }
    std::string method;
    if (weight.Has("calibration_method")) {
      const YamlPlace place = weight.At("calibration_method");
      std::vector<std::string> legal = {"MINMAX", "PERCENTILE"};
      if (PowerOfTwo()) legal = {"MINMAX"};
      GQ_ASSIGN_OR_RETURN(method, place.OneOf(legal));
      if (scheme_ == "W4-A8_dynamic" && method == "PERCENTILE") {
        return place.Error("4-bit weights keep their range; expected MINMAX");
      }
    }
    GQ_ASSIGN_OR_RETURN(const double percentile, Percentile(weight, method));
    if (percentile > 0) detail.set_weight_percentile(percentile);
    if (weight.Has("group_size")) {
      const YamlPlace place = weight.At("group_size");
      GQ_ASSIGN_OR_RETURN(const std::string size, place.OneOf({"32", "64", "128", "256"}));
      if (scheme_ != "W4-A8_dynamic") {
        return place.Error(StrCat("belongs to the scheme W4-A8_dynamic; here it is ", scheme_));
      }
      detail.set_group_size(std::stoi(size));
    }
    return absl::OkStatus();
  }

  absl::Status Activation(const YamlPlace& activation) {
    GQ_RETURN_IF_ERROR(
        activation.ExpectKeys({"granularity", "calibration_method", "percentile", "symmetric"}));
    if (activation.Has("granularity")) {
      GQ_RETURN_IF_ERROR(activation.At("granularity").OneOf({"TENSOR"}).status());
    }
    std::string method;
    if (activation.Has("calibration_method")) {
      const YamlPlace place = activation.At("calibration_method");
      if (Dynamic()) {
        return place.Error(StrCat("ranges are found at run time with ", scheme_,
                                  ", so there is nothing to calibrate"));
      }
      std::vector<std::string> legal = {"MINMAX", "PERCENTILE"};
      if (PowerOfTwo()) legal = {"MINMAX", "MINMSE", "NONOVERFLOW"};
      if (!PowerOfTwo()) legal.push_back("ENTROPY");
      GQ_ASSIGN_OR_RETURN(method, place.OneOf(legal));
    }
    GQ_ASSIGN_OR_RETURN(const double percentile, Percentile(activation, method));
    if (!method.empty()) {
      std::string flag = method == "MINMAX"        ? "minmax"
                         : method == "PERCENTILE"  ? "percentile"
                         : method == "MINMSE"      ? "minmse"
                         : method == "NONOVERFLOW" ? "nonoverflow"
                                                   : "entropy";
      if (percentile > 0) flag = StrCat(flag, ":", percentile);
      Set("calibration-method", {std::move(flag)}, activation.At("calibration_method").Where());
    }
    if (activation.Has("symmetric")) {
      const YamlPlace place = activation.At("symmetric");
      GQ_ASSIGN_OR_RETURN(const bool symmetric, place.Flag());
      if (!symmetric && scheme_ != "W8-A8") {
        return place.Error(StrCat("the scheme ", scheme_,
                                  " has symmetric activations only, or "
                                  "finds their ranges at run time"));
      }
      if (Dynamic()) return place.Error("ranges are found at run time");
      result_->detail.set_activation_symmetric(symmetric);
    }
    return absl::OkStatus();
  }

  absl::Status Parameters(const YamlPlace& parameters) {
    GQ_RETURN_IF_ERROR(parameters.ExpectKeys({"calibration"}));
    if (!parameters.Has("calibration")) return absl::OkStatus();
    const YamlPlace calibration = parameters.At("calibration");
    if (Dynamic()) {
      return calibration.Error(StrCat("ranges are found at run time with ", scheme_,
                                      ", so there is nothing to calibrate"));
    }
    GQ_RETURN_IF_ERROR(calibration.ExpectKeys({"num_samples"}));
    if (!calibration.Has("num_samples")) return absl::OkStatus();
    const YamlPlace place = calibration.At("num_samples");
    constexpr std::string_view kExpected = "-1 for all, or an integer from 1 on";
    GQ_ASSIGN_OR_RETURN(const int64_t samples, place.Integer(kExpected));
    if (samples != -1 && (samples < 1 || samples > INT32_MAX)) {
      return place.Error(StrCat("expected ", kExpected));
    }
    if (samples > 0) Set("num-samples", {std::to_string(samples)}, place.Where());
    return absl::OkStatus();
  }

  absl::Status MixedPrecision(const YamlPlace& limits) {
    GQ_RETURN_IF_ERROR(
        limits.ExpectKeys({"precision", "pass_rate", "min_gain_db", "patience", "max_share",
                           "max_iterations", "time_budget", "keep", "forbid"}));
    std::vector<std::string> values;
    for (const auto& [key, value] : limits.node->entries) {
      const YamlPlace place = limits.At(key.text);
      if (place.IsNull()) continue;
      const auto number = [&](double above, double up_to, std::string_view expected) {
        return place.Number(above, up_to, expected).status();
      };
      if (key.text == "precision") {
        GQ_RETURN_IF_ERROR(place.OneOf({"BF16", "FP16", "FP32"}).status());
      } else if (key.text == "pass_rate") {
        GQ_RETURN_IF_ERROR(number(0, 100, "percent, above 0 and up to 100"));
      } else if (key.text == "min_gain_db") {
        GQ_RETURN_IF_ERROR(number(-1e-9, 1000, "decibels, 0 or more"));
      } else if (key.text == "max_share") {
        GQ_RETURN_IF_ERROR(number(0, 1, "a share above 0 and up to 1"));
      } else if (key.text == "patience" || key.text == "max_iterations") {
        GQ_ASSIGN_OR_RETURN(const int64_t count, place.Integer("an integer from 1 on"));
        if (count < 1 || count > INT32_MAX) return place.Error("expected an integer from 1 on");
      }
      if (key.text == "keep" || key.text == "forbid") {
        GQ_ASSIGN_OR_RETURN(const std::vector<std::string> names, place.Texts());
        for (const std::string& name : names) values.push_back(StrCat(key.text, "=", name));
        continue;
      }
      GQ_ASSIGN_OR_RETURN(const std::string text, place.Text());
      values.push_back(StrCat(key.text, "=", text));
    }
    if (!values.empty()) Set("explore-limit", std::move(values), limits.Where());
    return absl::OkStatus();
  }

  // The detail file wins over run.yaml.
  void Set(const std::string& flag, std::vector<std::string> values, std::string where) {
    auto& settings = result_->settings;
    std::erase_if(settings, [&](const RunSetting& setting) { return setting.flag == flag; });
    settings.push_back({.flag = flag, .values = std::move(values), .where = std::move(where)});
  }

  std::string scheme_;
  bool quantizes_;
  RunFile* result_;
};

}  // namespace

absl::Status ReadRunDetail(const YamlPlace& root, const std::string& scheme, bool quantizes,
                           RunFile* result) {
  return DetailReader(scheme, quantizes, result).Read(root);
}

}  // namespace gq::job
