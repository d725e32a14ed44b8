#include "common/quantize/recover/recover.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "common/base/status.h"
#include "common/graph/graph_index.h"
#include "common/quantize/names.h"
#include "common/quantize/recover/compensated_rounding.h"
#include "common/quantize/recover/held_out.h"
#include "common/quantize/recover/range_choice.h"
#include "common/quantize/recover/recovery_pass.h"
#include "common/quantize/recover/transformer_passes.h"

namespace gq::quantize {
namespace {

using base::StrCat;

constexpr double kLeastGain = 0.05;  // dB

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

std::string Decibels(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f dB", value);
  return text;
}

bool Wants(const RecoverOptions& options, std::string_view name) {
  return std::find(options.passes.begin(), options.passes.end(), name) != options.passes.end();
}

// Samples spread over the whole set, every fourth of them to measure on.
struct Split {
  std::vector<Sample> fit;
  std::vector<Sample> held_out;
};

absl::StatusOr<Split> ReadSamples(runtime::DataSet& data, int64_t wanted) {
  const int64_t count = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, data.size()));
  std::vector<Sample> samples;
  for (int64_t i = 0; i < count; ++i) {
    Sample sample;
    GQ_ASSIGN_OR_RETURN(const auto read, data.Read(i * data.size() / count, &sample));
    if (read == runtime::DataSet::ReadResult::kSample) samples.push_back(std::move(sample));
  }
  Split split;
  for (size_t i = 0; i < samples.size(); ++i) {
    (i % 4 == 3 ? split.held_out : split.fit).push_back(std::move(samples[i]));
  }
  // A single sample has to serve for both.
  if (split.held_out.empty()) split.held_out = split.fit;
  return split;
}

// Scales of weights and biases as the passes left them.
void UpdateScales(const graph::Model& model, nlohmann::json& report) {
  const graph::GraphIndex index(model.graph());
  if (!report.contains("tensors")) return;
  for (auto& tensor : report["tensors"]) {
    const auto* scale = index.Initializer(ScaleName(tensor.value("name", "")));
    if (scale == nullptr) continue;
    const auto view = model.Data(*scale);
    if (!view.ok() || view->size() != 1) continue;
    const float value = static_cast<float>(view->At(0));
    tensor["scale"] = {value};
    if (tensor.contains("pos")) tensor["pos"] = PositionOfScale(value);
  }
}

class Recovery {
 public:
  Recovery(const graph::Model& float_model, const RecoverOptions& options, Split split,
           base::Reporter& reporter, const QuantizeInputs& inputs, runtime::DataSet& data)
      : float_model_(float_model),
        options_(options),
        split_(std::move(split)),
        reporter_(reporter),
        inputs_(inputs),
        data_(data) {}

  absl::Status Run(RecoveryState& state) {
    const auto start = std::chrono::steady_clock::now();
    GQ_ASSIGN_OR_RETURN(const HeldOut held_out, HeldOut::Create(float_model_, split_.held_out));
    GQ_ASSIGN_OR_RETURN(std::vector<double> now, held_out.Measure(state.result.model));
    const double before = Mean(now);
    reporter_.Info("Recover", StrCat("without recovery: ", Decibels(before), " on ",
                                     split_.held_out.size(), " samples held out"));
    nlohmann::json passes = nlohmann::json::array();
    for (const RecoveryPass* pass : RecoveryPasses()) {
      if (!Wants(options_, pass->name())) continue;
      GQ_ASSIGN_OR_RETURN(auto entry, Try(*pass, held_out, state, now));
      passes.push_back(std::move(entry));
    }
    state.result.report["recovery"] = {{"before_db", before},
                                       {"after_db", Mean(now)},
                                       {"outputs_db", now},
                                       {"fit_samples", split_.fit.size()},
                                       {"held_out_samples", split_.held_out.size()},
                                       {"passes", std::move(passes)},
                                       {"seconds", Seconds(start)}};
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<nlohmann::json> Try(const RecoveryPass& pass, const HeldOut& held_out,
                                     RecoveryState& state, std::vector<double>& now) {
    const auto start = std::chrono::steady_clock::now();
    RecoveryState candidate = state;
    const RecoveryData data = {float_model_, data_.inputs(), split_.fit, inputs_.origin, reporter_};
    absl::StatusOr<int> changed = pass.Run(data, candidate);
    if (changed.ok() && candidate.stale) {
      if (const absl::Status status = Requantize(candidate); !status.ok()) changed = status;
    }
    nlohmann::json entry = {{"name", pass.name()}, {"changed", 0}, {"gain_db", 0}, {"kept", false}};
    if (!changed.ok()) {
      if (base::GetReason(changed.status()) == base::Reason::kCancelled) return changed.status();
      reporter_.Warn(
          "Recover",
          StrCat(pass.name(), " was left out: ", base::FromAbsl(changed.status().message())));
      entry["error"] = std::string(base::FromAbsl(changed.status().message()));
      return entry;
    }
    double gain = 0;
    if (*changed > 0) {
      GQ_ASSIGN_OR_RETURN(std::vector<double> after, held_out.Measure(candidate.result.model));
      gain = Mean(after) - Mean(now);
      if (gain >= kLeastGain) {
        state = std::move(candidate);
        now = std::move(after);
        entry["kept"] = true;
      }
    }
    entry["changed"] = *changed;
    entry["gain_db"] = gain;
    entry["seconds"] = Seconds(start);
    reporter_.Info("Recover",
                   StrCat(pass.name(), ": ", *changed, " changed, ", Decibels(gain),
                          *changed == 0 ? "" : (gain >= kLeastGain ? ", kept" : ", not kept"), " (",
                          static_cast<int>(Seconds(start) * 1000), " ms)"));
    return entry;
  }

  absl::Status Requantize(RecoveryState& state) {
    QuantizeInputs inputs = inputs_;
    inputs.table = state.table.tensors.empty() ? nullptr : &state.table;
    GQ_ASSIGN_OR_RETURN(state.result,
                        Quantize(state.source, state.config, data_, reporter_, inputs));
    state.table = state.result.table;
    state.stale = false;
    return absl::OkStatus();
  }

  const graph::Model& float_model_;
  const RecoverOptions& options_;
  const Split split_;
  base::Reporter& reporter_;
  const QuantizeInputs& inputs_;
  runtime::DataSet& data_;
};

}  // namespace

std::span<const RecoveryPass* const> RecoveryPasses() {
  static const MaskConstants kMasks;
  static const RangeChoice kRanges;
  static const FloatResiduals kResiduals;
  static const BiasCorrection kBias;
  static const CompensatedRounding kRounding;
  static const RecoveryPass* const kPasses[] = {&kMasks, &kRanges, &kResiduals, &kRounding, &kBias};
  return kPasses;
}

absl::StatusOr<RecoverOptions> ParseRecover(std::string_view text) {
  RecoverOptions options;
  if (text == "none") return options;
  std::vector<std::string> known;
  for (const RecoveryPass* pass : RecoveryPasses()) known.emplace_back(pass->name());
  if (text == "auto") {
    options.passes = std::move(known);
    return options;
  }
  for (const std::string_view part : base::StrSplit(text, ',')) {
    if (std::find(known.begin(), known.end(), part) == known.end()) {
      return base::MakeError(base::Reason::kInvalidFlag,
                             StrCat("--recover '", part, "' is no recovery pass"),
                             StrCat("none, auto, or some of ", base::StrJoin(known, ", ")));
    }
    options.passes.emplace_back(part);
  }
  return options;
}

absl::StatusOr<QuantizeResult> QuantizeWithRecovery(
    const graph::Model& float_model, const QuantizeConfig& config, const RecoverOptions& options,
    runtime::DataSet& data, base::Reporter& reporter, const QuantizeInputs& inputs) {
  GQ_ASSIGN_OR_RETURN(QuantizeResult plain, Quantize(float_model, config, data, reporter, inputs));
  if (options.passes.empty() || data.random()) return plain;
  const int64_t sample_bytes = std::max<int64_t>(1, 2 * PeakLiveBytes(float_model));
  const int64_t fitting = std::max<int64_t>(2, options.max_bytes / sample_bytes);
  GQ_ASSIGN_OR_RETURN(Split split, ReadSamples(data, std::min(options.max_samples, fitting)));
  auto table = plain.table;
  RecoveryState state{.source = float_model,
                      .config = config,
                      .table = std::move(table),
                      .result = std::move(plain)};
  Recovery recovery(float_model, options, std::move(split), reporter, inputs, data);
  GQ_RETURN_IF_ERROR(recovery.Run(state));
  state.result.table = std::move(state.table);
  state.result.model.CompactStore();
  UpdateScales(state.result.model, state.result.report);
  return std::move(state.result);
}

}  // namespace gq::quantize
