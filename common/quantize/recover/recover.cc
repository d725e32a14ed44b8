#include "common/quantize/recover/recover.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "common/base/status.h"
#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"
#include "common/quantize/names.h"
#include "common/quantize/recover/compensated_rounding.h"
#include "common/quantize/recover/equalization.h"
#include "common/quantize/recover/float_nodes.h"
#include "common/quantize/recover/folding.h"
#include "common/quantize/recover/held_out.h"
#include "common/quantize/recover/range_choice.h"
#include "common/quantize/recover/recovery_pass.h"
#include "common/quantize/recover/recovery_samples.h"
#include "common/quantize/recover/recovery_source.h"
#include "common/quantize/recover/rescaled.h"
#include "common/quantize/recover/smoothing.h"
#include "common/quantize/recover/transformer_passes.h"

namespace gq::quantize {
namespace {

using base::StrCat;

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

std::string InDecibels(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f dB", value);
  return text;
}

bool Wants(const RecoverOptions& options, std::string_view name) {
  return std::find(options.passes.begin(), options.passes.end(), name) != options.passes.end();
}

// An output may lose this much against the model without recovery: less than rounding scatters.
constexpr double kScatter = 0.1;     // dB
constexpr size_t kQuickSamples = 6;  // at least
constexpr int64_t kQuickMacs = 3e8;  // multiplications that all quick samples together may take
constexpr size_t kManySamples = 24;

// No output has lost against the model without recovery, or against what it was when it already
// had, by more than chance explains.
bool NoOutputSuffers(const OutputErrors& after, const OutputErrors& now,
                     const OutputErrors& plain) {
  for (size_t i = 0; i < after.size(); ++i) {
    const OutputErrors& lower = now[i].Decibels() < plain[i].Decibels() ? now : plain;
    const Gain gain = GainOf({lower[i]}, {after[i]});
    if (gain.decibels < -kScatter - gain.standard_error) return false;
  }
  return true;
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
  Recovery(const graph::Model& float_model, const RecoverOptions& options, SampleSplit split,
           HeldOut held_out, base::Reporter& reporter, const QuantizeInputs& inputs,
           runtime::DataSet& data)
      : float_model_(float_model),
        options_(options),
        split_(std::move(split)),
        held_out_(std::move(held_out)),
        reporter_(reporter),
        inputs_(inputs),
        data_(data) {
    const int64_t macs = std::max<int64_t>(1, graph::Analyze(float_model).macs);
    const size_t count = std::min(std::max(kQuickSamples, static_cast<size_t>(kQuickMacs / macs)),
                                  split_.fit.size());
    for (size_t i = 0; i < count; ++i) {
      quick_.push_back(split_.fit[i * split_.fit.size() / count]);
    }
  }

  absl::Status Run(RecoveryState& state) {
    const auto start = std::chrono::steady_clock::now();
    GQ_ASSIGN_OR_RETURN(plain_, held_out_.Measure(state.result.model));
    now_ = plain_;
    reporter_.Info("Recover", StrCat("without recovery: ", InDecibels(Mean(plain_)), " on ",
                                     split_.held_out.size(), " samples held out"));
    nlohmann::json passes = nlohmann::json::array();
    for (const RecoveryPass* pass : RecoveryPasses()) {
      if (!Wants(options_, pass->name())) continue;
      // Rounding has fitted the biases as well.
      if (before_rounding_ && pass->name() == BiasCorrection().name()) continue;
      GQ_ASSIGN_OR_RETURN(auto entry, Try(*pass, state));
      passes.push_back(std::move(entry));
    }
    GQ_ASSIGN_OR_RETURN(const bool refitted, FitToAll(state));
    state.result.report["recovery"] = {{"before_db", Mean(plain_)},
                                       {"after_db", Mean(now_)},
                                       {"outputs_before_db", Decibels(plain_)},
                                       {"outputs_db", Decibels(now_)},
                                       {"fit_samples", split_.fit.size()},
                                       {"held_out_samples", split_.held_out.size()},
                                       {"passes", std::move(passes)},
                                       {"fitted_to_all", refitted},
                                       {"seconds", Seconds(start)}};
    return absl::OkStatus();
  }

  // Tells in the model what can no longer be compared with the float model by name.
  absl::Status NoteRescaled(RecoveryState& state) const {
    if (!state.rewritten) return absl::OkStatus();
    GQ_ASSIGN_OR_RETURN(const auto names,
                        RescaledTensors(float_model_, state.source, split_.fit.front()));
    WriteRescaled(names, &state.result.model);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<nlohmann::json> Try(const RecoveryPass& pass, RecoveryState& state) {
    const auto start = std::chrono::steady_clock::now();
    nlohmann::json entry = {{"name", pass.name()}, {"changed", 0}, {"gain_db", 0}, {"kept", false}};
    std::optional<RecoveryState> best;
    Judgement judgement;
    for (int variant = 0; variant < pass.variants(); ++variant) {
      RecoveryState candidate = state;
      absl::StatusOr<int> changed = pass.Run(Data(variant), candidate);
      if (changed.ok() && candidate.stale) {
        const absl::Status status = Requantize(inputs_, data_, reporter_, candidate);
        if (!status.ok()) changed = status;
      }
      if (!changed.ok()) {
        if (base::GetReason(changed.status()) == base::Reason::kCancelled) return changed.status();
        const std::string why(base::FromAbsl(changed.status().message()));
        reporter_.Warn("Recover", StrCat(pass.name(), " was left out: ", why));
        entry["error"] = why;
        return entry;
      }
      if (*changed == 0) continue;
      GQ_ASSIGN_OR_RETURN(Judgement judged, Judge(pass, state, candidate));
      const bool better =
          judged.kept == judgement.kept ? judged.gain > judgement.gain : judged.kept;
      if (entry["changed"] != 0 && !better) continue;
      entry["changed"] = *changed;
      judgement = std::move(judged);
      best = std::move(candidate);
    }
    if (judgement.kept) {
      before_rounding_.reset();
      if (pass.name() == CompensatedRounding().name()) before_rounding_ = state;
      state = *std::move(best);
      now_ = std::move(judgement.after);
      now_rounded_ = std::move(judgement.rounded);
    }
    entry["gain_db"] = judgement.gain;
    entry["standard_error_db"] = judgement.standard_error;
    entry["kept"] = judgement.kept;
    entry["seconds"] = Seconds(start);
    reporter_.Info("Recover",
                   StrCat(pass.name(), ": ", entry["changed"].get<int>(), " changed",
                          entry["changed"] == 0 ? ""
                                                : StrCat(", ", InDecibels(judgement.gain),
                                                         judgement.kept ? ", kept" : ", not kept"),
                          " (", static_cast<int>(Seconds(start) * 1000), " ms)"));
    return entry;
  }

  struct Judgement {
    double gain = 0, standard_error = 0;
    bool kept = false;
    OutputErrors after, rounded;  // as now_ and now_rounded_
  };

  absl::StatusOr<Judgement> Judge(const RecoveryPass& pass, const RecoveryState& state,
                                  const RecoveryState& candidate) {
    const bool behind =
        pass.JudgedBehindRounding() && Wants(options_, CompensatedRounding().name());
    Judgement judgement;
    GQ_ASSIGN_OR_RETURN(judgement.after, held_out_.Measure(candidate.result.model));
    if (behind) {
      if (now_rounded_.empty()) {
        GQ_ASSIGN_OR_RETURN(now_rounded_, MeasureBehindRounding(state));
      }
      GQ_ASSIGN_OR_RETURN(judgement.rounded, MeasureBehindRounding(candidate));
    }
    // "rounding" will not be kept where it does harm.
    const auto better = [behind](const OutputErrors& plain, const OutputErrors& rounded) {
      return behind && Mean(rounded) > Mean(plain) ? &rounded : &plain;
    };
    const OutputErrors& before = *better(now_, now_rounded_);
    const OutputErrors& after = *better(judgement.after, judgement.rounded);
    const Gain gain = GainOf(before, after);
    judgement.gain = gain.decibels;
    judgement.standard_error = gain.standard_error;
    judgement.kept = gain.decibels >= pass.least_gain() && NoOutputSuffers(after, before, plain_);
    return judgement;
  }

  // What the outputs would be after a rounding that learns from few samples.
  absl::StatusOr<OutputErrors> MeasureBehindRounding(const RecoveryState& state) {
    RecoveryState copy = state;
    base::NullReporter quiet;
    RecoveryData data = {float_model_, data_.inputs(), quick_, inputs_.origin, quiet};
    data.quick = true;
    GQ_RETURN_IF_ERROR(CompensatedRounding().Run(data, copy).status());
    if (reporter_.Cancelled()) {
      return base::MakeError(base::Reason::kCancelled, "The quantization was cancelled");
    }
    return held_out_.Measure(copy.result.model);
  }

  // Few samples are too precious to be only measured on: where rounding was the last pass that was
  // kept, it is done once more with all of them. The figures are those from before.
  absl::StatusOr<bool> FitToAll(RecoveryState& state) {
    const size_t count = split_.fit.size() + split_.held_out.size();
    if (!before_rounding_ || count >= kManySamples || split_.fit.size() < 2) return false;
    std::vector<Sample> all = split_.fit;
    all.insert(all.end(), split_.held_out.begin(), split_.held_out.end());
    RecoveryState again = *std::move(before_rounding_);
    const RecoveryData data = {float_model_, data_.inputs(), all, inputs_.origin, reporter_};
    GQ_RETURN_IF_ERROR(CompensatedRounding().Run(data, again).status());
    state = std::move(again);
    return true;
  }

  RecoveryData Data(int variant) const {
    return {float_model_, data_.inputs(), split_.fit, inputs_.origin, reporter_, variant};
  }

  const graph::Model& float_model_;
  const RecoverOptions& options_;
  const SampleSplit split_;
  std::vector<Sample> quick_;  // some of split_.fit
  const HeldOut held_out_;
  base::Reporter& reporter_;
  const QuantizeInputs& inputs_;
  runtime::DataSet& data_;
  // Of the outputs in dB: without recovery, as they are, and as a quick rounding would leave them
  // (empty until somebody asks).
  OutputErrors plain_, now_, now_rounded_;
  std::optional<RecoveryState> before_rounding_;  // when nothing else was kept behind it
};

// Without one there is nothing that a gain could be measured on.
bool HasFloatOutput(const graph::Model& model) {
  const auto& outputs = model.graph().output();
  return std::any_of(outputs.begin(), outputs.end(), [](const auto& output) {
    return graph::IsFloatType(output.type().tensor_type().elem_type());
  });
}

}  // namespace

std::span<const RecoveryPass* const> RecoveryPasses() {
  static const MaskConstants kMasks;
  static const RangeChoice kRanges;
  static const FloatResiduals kResiduals;
  static const BiasCorrection kBias;
  static const CompensatedRounding kRounding;
  static const FoldActivations kFolding;
  static const FloatFunctions kFunctions;
  static const SmoothChannels kSmooth;
  static const EqualizeChannels kEqualize;
  static const RecoveryPass* const kPasses[] = {&kFolding,   &kMasks,     &kRanges,
                                                &kResiduals, &kFunctions, &kSmooth,
                                                &kEqualize,  &kRounding,  &kBias};
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
  RecoverySource source;
  return QuantizeWithRecovery(float_model, config, options, data, reporter, inputs, &source);
}

absl::StatusOr<QuantizeResult> QuantizeWithRecovery(
    const graph::Model& float_model, const QuantizeConfig& config, const RecoverOptions& options,
    runtime::DataSet& data, base::Reporter& reporter, const QuantizeInputs& inputs,
    RecoverySource* source) {
  *source = {float_model, config};
  GQ_ASSIGN_OR_RETURN(QuantizeResult plain, Quantize(float_model, config, data, reporter, inputs));
  if (options.passes.empty() || data.random() || !HasFloatOutput(float_model)) return plain;
  const int64_t sample_bytes = std::max<int64_t>(1, 2 * PeakLiveBytes(float_model));
  const int64_t fitting = std::max<int64_t>(2, options.max_bytes / sample_bytes);
  GQ_ASSIGN_OR_RETURN(SampleSplit split, ReadSamples(data, std::min(options.max_samples, fitting)));
  auto table = plain.table;
  RecoveryState state{.source = float_model,
                      .config = config,
                      .table = std::move(table),
                      .result = std::move(plain)};
  GQ_ASSIGN_OR_RETURN(HeldOut held_out, HeldOut::Create(float_model, split.held_out));
  Recovery recovery(float_model, options, std::move(split), std::move(held_out), reporter, inputs,
                    data);
  GQ_RETURN_IF_ERROR(recovery.Run(state));
  GQ_RETURN_IF_ERROR(recovery.NoteRescaled(state));
  state.result.table = std::move(state.table);
  state.result.model.CompactStore();
  UpdateScales(state.result.model, state.result.report);
  *source = {std::move(state.source), std::move(state.config)};
  return std::move(state.result);
}

}  // namespace gq::quantize
