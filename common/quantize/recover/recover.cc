#include "common/quantize/recover/recover.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <set>

#include "common/base/quiet_reporter.h"
#include "common/base/status.h"
#include "common/graph/analysis.h"
#include "common/graph/graph_index.h"
#include "common/quantize/names.h"
#include "common/quantize/recover/compensated_rounding.h"
#include "common/quantize/recover/equalization.h"
#include "common/quantize/recover/float_nodes.h"
#include "common/quantize/recover/folding.h"
#include "common/quantize/recover/held_out.h"
#include "common/quantize/recover/proving_ground.h"
#include "common/quantize/recover/range_choice.h"
#include "common/quantize/recover/recovery_pass.h"
#include "common/quantize/recover/recovery_samples.h"
#include "common/quantize/recover/recovery_source.h"
#include "common/quantize/recover/rescaled.h"
#include "common/quantize/recover/scaling.h"
#include "common/quantize/recover/smoothing.h"
#include "common/quantize/recover/transformer_passes.h"
#include "common/quantize/recover/wide_bias.h"

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

// Biases that a pass may have refitted: they make up for errors elsewhere, so what they are in the
// float model says nothing about them.
std::set<std::string> LayerBiases(const graph::Model& model) {
  const graph::GraphIndex index(model.graph());
  const ConstantReader constants(model, index);
  std::set<std::string> biases;
  for (const auto& node : model.graph().node()) {
    const std::string_view bias = graph::InputName(node, 2);
    if (IsLinearLayer(node, constants) && constants.IsFloat(bias)) biases.emplace(bias);
  }
  return biases;
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
  Recovery(const graph::Model& float_model, const RecoverOptions& options,
           std::vector<SampleFold> folds, base::Reporter& reporter, const QuantizeInputs& inputs,
           runtime::DataSet& data)
      : float_model_(float_model),
        options_(options),
        folds_(std::move(folds)),
        reporter_(reporter),
        inputs_(inputs),
        data_(data) {}

  absl::Status Run(RecoveryState& state) {
    const auto start = std::chrono::steady_clock::now();
    GQ_RETURN_IF_ERROR(Prepare(state));
    reporter_.Info("Recover", StrCat("without recovery: ", InDecibels(Mean(beside_fit_.plain)),
                                     " on ", beside_fit_.ground.samples(), " samples held out"));
    nlohmann::json passes = nlohmann::json::array();
    for (const RecoveryPass* pass : RecoveryPasses()) {
      if (!Wants(options_, pass->name())) continue;
      // Rounding has fitted the biases as well.
      if (before_rounding_ && pass->name() == BiasCorrection().name()) continue;
      GQ_ASSIGN_OR_RETURN(auto entry, Try(*pass, state));
      passes.push_back(std::move(entry));
    }
    GQ_RETURN_IF_ERROR(Update(state, beside_fit_));
    GQ_ASSIGN_OR_RETURN(const bool refitted, FitToAll(state));
    state.result.report["recovery"] = {{"before_db", Mean(beside_fit_.plain)},
                                       {"after_db", Mean(beside_fit_.now)},
                                       {"outputs_before_db", Decibels(beside_fit_.plain)},
                                       {"outputs_db", Decibels(beside_fit_.now)},
                                       {"fit_samples", folds_[0].fit.size()},
                                       {"held_out_samples", beside_fit_.ground.samples()},
                                       {"passes", std::move(passes)},
                                       {"fitted_to_all", refitted},
                                       {"seconds", Seconds(start)}};
    return absl::OkStatus();
  }

  // Tells in the model what can no longer be compared with the float model by name.
  absl::Status NoteRescaled(RecoveryState& state) const {
    std::set<std::string> names;
    if (state.rewritten) {
      GQ_ASSIGN_OR_RETURN(names,
                          RescaledTensors(float_model_, state.source, folds_[0].fit.front()));
    }
    if (biases_refitted_) names.merge(LayerBiases(state.source));
    WriteRescaled(names, &state.result.model);
    return absl::OkStatus();
  }

 private:
  // Where passes are judged, and what the outputs lose there without recovery and as they are
  // (empty: not known).
  struct Bench {
    ProvingGround ground;
    OutputErrors plain, now;
  };

  // A pass that fits nothing to the samples is judged on all that a quick rounding does not see:
  // the more there are, the less is chance.
  absl::Status Prepare(const RecoveryState& state) {
    const int64_t macs = std::max<int64_t>(1, graph::Analyze(float_model_).macs);
    std::vector<SampleFold> quick;
    for (const SampleFold& fold : folds_) {
      SampleFold& part = quick.emplace_back(SampleFold{.held_out = fold.held_out});
      const size_t count = std::min(std::max(kQuickSamples, static_cast<size_t>(kQuickMacs / macs)),
                                    fold.fit.size());
      std::vector<bool> taken(fold.fit.size(), false);
      for (size_t i = 0; i < count; ++i) taken[i * fold.fit.size() / count] = true;
      for (size_t i = 0; i < taken.size(); ++i) {
        if (taken[i]) {
          part.fit.push_back(fold.fit[i]);
        } else if (folds_.size() == 1) {
          part.held_out.push_back(fold.fit[i]);
        }
      }
    }
    const auto open = [&](std::vector<SampleFold> folds, Bench& bench) -> absl::Status {
      GQ_ASSIGN_OR_RETURN(bench.ground,
                          ProvingGround::Create(float_model_, std::move(folds), options_.threads));
      GQ_ASSIGN_OR_RETURN(bench.plain, bench.ground.Measure(state.result.model));
      bench.now = bench.plain;
      return absl::OkStatus();
    };
    GQ_RETURN_IF_ERROR(open(folds_, beside_fit_));
    return open(std::move(quick), beside_quick_);
  }

  static absl::Status Update(const RecoveryState& state, Bench& bench) {
    if (!bench.now.empty()) return absl::OkStatus();
    GQ_ASSIGN_OR_RETURN(bench.now, bench.ground.Measure(state.result.model));
    return absl::OkStatus();
  }

  Bench& BenchOf(const RecoveryPass& pass) {
    return pass.FitsSamples() ? beside_fit_ : beside_quick_;
  }

  // `state` as the pass, in one of its variants, leaves it after learning from `samples`; how much
  // it changed.
  absl::StatusOr<int> RunPass(const RecoveryPass& pass, int variant,
                              const std::vector<Sample>& samples, base::Reporter& reporter,
                              RecoveryState& state) {
    RecoveryData data = Data(samples, reporter);
    data.variant = variant;
    GQ_ASSIGN_OR_RETURN(const int changed, pass.Run(data, state));
    base::QuietReporter quiet(reporter_);
    if (state.stale) GQ_RETURN_IF_ERROR(Requantize(inputs_, data_, quiet, state));
    return changed;
  }

  absl::StatusOr<nlohmann::json> Try(const RecoveryPass& pass, RecoveryState& state) {
    const auto start = std::chrono::steady_clock::now();
    nlohmann::json entry = {{"name", pass.name()}, {"changed", 0}, {"gain_db", 0}, {"kept", false}};
    std::optional<RecoveryState> best;
    Judgement judgement;
    for (int variant = 0; variant < pass.variants(); ++variant) {
      RecoveryState candidate = state;
      const absl::StatusOr<int> changed =
          RunPass(pass, variant, folds_[0].fit, reporter_, candidate);
      if (!changed.ok()) {
        if (base::GetReason(changed.status()) == base::Reason::kCancelled) return changed.status();
        const std::string why(base::FromAbsl(changed.status().message()));
        reporter_.Warn("Recover", StrCat(pass.name(), " was left out: ", why));
        entry["error"] = why;
        return entry;
      }
      if (*changed == 0) continue;
      GQ_ASSIGN_OR_RETURN(Judgement judged, Judge(pass, state, candidate, variant));
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
      beside_fit_.now.clear();
      beside_quick_.now.clear();
      BenchOf(pass).now = std::move(judgement.after);
      biases_refitted_ = biases_refitted_ || pass.FitsBiases();
      now_rounded_ = std::move(judgement.rounded);
    }
    entry["gain_db"] = judgement.gain;
    entry["standard_error_db"] = judgement.standard_error;
    entry["outputs_gain_db"] = judgement.outputs_gain;
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
    std::vector<double> outputs_gain;
    bool kept = false;
    OutputErrors after, rounded;  // as Bench::now and now_rounded_
  };

  absl::StatusOr<Judgement> Judge(const RecoveryPass& pass, const RecoveryState& state,
                                  const RecoveryState& candidate, int variant) {
    const bool behind =
        pass.JudgedBehindRounding() && Wants(options_, CompensatedRounding().name());
    Bench& bench = BenchOf(pass);
    GQ_RETURN_IF_ERROR(Update(state, bench));
    Judgement judgement;
    if (pass.FitsSamples()) {
      const auto fit = [&](const std::vector<Sample>& samples) -> absl::StatusOr<graph::Model> {
        RecoveryState copy = state;
        base::QuietReporter quiet(reporter_);
        GQ_RETURN_IF_ERROR(RunPass(pass, variant, samples, quiet, copy).status());
        GQ_RETURN_IF_ERROR(CheckCancelled());
        return std::move(copy.result.model);
      };
      GQ_ASSIGN_OR_RETURN(judgement.after,
                          bench.ground.MeasureFitted(fit, &candidate.result.model));
    } else {
      GQ_ASSIGN_OR_RETURN(judgement.after, bench.ground.Measure(candidate.result.model));
    }
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
    const OutputErrors& before = *better(bench.now, now_rounded_);
    const OutputErrors& after = *better(judgement.after, judgement.rounded);
    const Gain gain = GainOf(before, after);
    judgement.gain = gain.decibels;
    judgement.standard_error = gain.standard_error;
    for (size_t i = 0; i < after.size(); ++i) {
      judgement.outputs_gain.push_back(after[i].Decibels() - before[i].Decibels());
    }
    judgement.kept =
        gain.decibels >= pass.least_gain() && NoOutputSuffers(after, before, bench.plain);
    return judgement;
  }

  // What the outputs would be after a rounding that learns from few samples.
  absl::StatusOr<OutputErrors> MeasureBehindRounding(const RecoveryState& state) {
    return beside_quick_.ground.MeasureFitted(
        [&](const std::vector<Sample>& samples) -> absl::StatusOr<graph::Model> {
          RecoveryState copy = state;
          base::QuietReporter quiet(reporter_);
          RecoveryData data = Data(samples, quiet);
          data.quick = true;
          GQ_RETURN_IF_ERROR(CompensatedRounding().Run(data, copy).status());
          GQ_RETURN_IF_ERROR(CheckCancelled());
          return std::move(copy.result.model);
        });
  }

  absl::Status CheckCancelled() const {
    if (!reporter_.Cancelled()) return absl::OkStatus();
    return base::MakeError(base::Reason::kCancelled, "The quantization was cancelled");
  }

  // Few samples are too precious to be only measured on: where rounding was the last pass that was
  // kept, it is done once more with all of them. The figures are those from before.
  absl::StatusOr<bool> FitToAll(RecoveryState& state) {
    const auto& [fit, held_out] = folds_[0];
    if (!before_rounding_ || fit.size() + held_out.size() >= kManySamples || fit.size() < 2) {
      return false;
    }
    std::vector<Sample> all = fit;
    all.insert(all.end(), held_out.begin(), held_out.end());
    RecoveryState again = *std::move(before_rounding_);
    GQ_RETURN_IF_ERROR(CompensatedRounding().Run(Data(all, reporter_), again).status());
    state = std::move(again);
    return true;
  }

  RecoveryData Data(const std::vector<Sample>& samples, base::Reporter& reporter) const {
    return {.float_model = float_model_,
            .inputs = data_.inputs(),
            .samples = samples,
            .origin = inputs_.origin,
            .reporter = reporter,
            .threads = options_.threads,
            .bias_bits = options_.bias_bits};
  }

  const graph::Model& float_model_;
  const RecoverOptions& options_;
  const std::vector<SampleFold> folds_;
  Bench beside_fit_;
  Bench beside_quick_;
  base::Reporter& reporter_;
  const QuantizeInputs& inputs_;
  runtime::DataSet& data_;
  bool biases_refitted_ = false;
  // As a quick rounding would leave the outputs, on beside_quick_; empty until somebody asks.
  OutputErrors now_rounded_;
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
  static const WideBias kWideBias;
  static const RecoveryPass* const kPasses[] = {&kFolding,   &kMasks,  &kRanges,   &kResiduals,
                                                &kFunctions, &kSmooth, &kEqualize, &kWideBias,
                                                &kRounding,  &kBias};
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
  GQ_ASSIGN_OR_RETURN(std::vector<SampleFold> folds,
                      ReadSamples(data, std::min(options.max_samples, fitting)));
  auto table = plain.table;
  RecoveryState state{.source = float_model,
                      .config = config,
                      .table = std::move(table),
                      .result = std::move(plain)};
  Recovery recovery(float_model, options, std::move(folds), reporter, inputs, data);
  GQ_RETURN_IF_ERROR(recovery.Run(state));
  GQ_RETURN_IF_ERROR(recovery.NoteRescaled(state));
  state.result.table = std::move(state.table);
  state.result.model.CompactStore();
  UpdateScales(state.result.model, state.result.report);
  *source = {std::move(state.source), std::move(state.config)};
  return std::move(state.result);
}

}  // namespace gq::quantize
