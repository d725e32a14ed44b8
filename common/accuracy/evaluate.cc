#include "common/accuracy/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <span>
#include <utility>

#include "common/accuracy/output_comparer.h"
#include "common/accuracy/output_step.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/graph_index.h"
#include "common/runtime/npy.h"
#include "common/runtime/session.h"

namespace gq::accuracy {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

absl::StatusOr<runtime::Session> MakeSession(const graph::Model& model, std::string_view role) {
  runtime::SessionOptions options;
  options.optimization = runtime::OptimizationLevel::kBasic;
  options.threads = 1;
  options.disable_quant_qdq = true;
  options.spinning = false;
  auto session = runtime::Session::Create(model, options);
  if (!session.ok()) return base::AddContext(session.status(), role);
  return session;
}

// Position in the data's sample of every input of the session.
absl::StatusOr<std::vector<size_t>> MapInputs(const std::vector<runtime::TensorInfo>& inputs,
                                              const std::vector<runtime::InputSpec>& specs,
                                              std::string_view role) {
  std::vector<size_t> map;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto found = std::find_if(specs.begin(), specs.end(),
                                    [&](const auto& spec) { return spec.name == inputs[i].name; });
    size_t at = static_cast<size_t>(found - specs.begin());
    if (found == specs.end() && inputs.size() == specs.size()) at = i;  // renamed
    const bool fits =
        at < specs.size() && specs[at].dtype == inputs[i].dtype &&
        std::equal(specs[at].shape.begin(), specs[at].shape.end(), inputs[i].shape.begin(),
                   inputs[i].shape.end(), [](int64_t a, int64_t b) { return b < 0 || a == b; });
    if (!fits) {
      std::vector<std::string> have;
      for (const auto& spec : specs) {
        have.push_back(StrCat("'", spec.name, "' ", runtime::Describe(spec.dtype, spec.shape)));
      }
      return MakeError(Reason::kModelInvalid,
                       StrCat("input '", inputs[i].name, "' ",
                              runtime::Describe(inputs[i].dtype, inputs[i].shape), " of the ", role,
                              " is not among the inputs of the data: ", base::StrJoin(have, ", ")),
                       "compare two models with the same inputs");
    }
    map.push_back(at);
  }
  return map;
}

// The candidate's file in a session of its own.
class SessionRunner : public CandidateRunner {
 public:
  explicit SessionRunner(runtime::Session session) : session_(std::move(session)) {}
  const std::vector<runtime::TensorInfo>& inputs() const override { return session_.inputs(); }
  const std::vector<runtime::TensorInfo>& outputs() const override { return session_.outputs(); }
  absl::Status Run(int64_t /*sample*/, std::span<const runtime::Tensor> inputs,
                   std::vector<runtime::Tensor>* outputs) override {
    return session_.Run(inputs, outputs);
  }

 private:
  runtime::Session session_;
};

int OutputIndex(const std::vector<runtime::TensorInfo>& outputs, std::string_view name) {
  const auto found = std::find_if(outputs.begin(), outputs.end(),
                                  [&](const auto& info) { return info.name == name; });
  return found == outputs.end() ? -1 : static_cast<int>(found - outputs.begin());
}

// What the runs of one sample gave.
struct Slot {
  int64_t index = 0;
  std::vector<runtime::Tensor> sample;
  std::vector<runtime::Tensor> reference, candidate;
  std::vector<runtime::Tensor> inputs;
  bool kept = false;  // `reference` is shared with the baseline
  double reference_seconds = 0, candidate_seconds = 0;
};

class Evaluator {
 public:
  Evaluator(const graph::Model& candidate, runtime::DataSet& data, const EvaluateOptions& options,
            base::Reporter& reporter, Baseline& baseline, CandidateRunner& runner)
      : candidate_(candidate),
        data_(data),
        options_(options),
        reporter_(reporter),
        baseline_(baseline),
        reference_session_(baseline.session()),
        runner_(runner) {
    evaluation_.task = options.task;
  }

  absl::Status Prepare() {
    GQ_ASSIGN_OR_RETURN(reference_inputs_,
                        MapInputs(reference_session_.inputs(), data_.inputs(), "reference"));
    GQ_ASSIGN_OR_RETURN(candidate_inputs_,
                        MapInputs(runner_.inputs(), data_.inputs(), "candidate"));
    GQ_RETURN_IF_ERROR(MapOutputs());
    GQ_RETURN_IF_ERROR(CheckTargets());
    return CheckLabels();
  }

  absl::StatusOr<Evaluation> Run() {
    const int64_t total = NumberOfSamples();
    std::vector<Slot> slots(static_cast<size_t>(std::max(options_.parallel_samples, 1)));
    int64_t next = 0;
    while (next < total) {
      size_t filled = 0;
      while (filled < slots.size() && next < total) {
        Slot& slot = slots[filled];
        slot.index = options_.only.empty() ? next : options_.only[static_cast<size_t>(next)];
        ++next;
        GQ_ASSIGN_OR_RETURN(const auto read, data_.Read(slot.index, &slot.sample));
        if (read == runtime::DataSet::ReadResult::kSample) {
          ++filled;
        } else {
          ++evaluation_.skipped;
          AddWarning(data_.skip_reason());
        }
      }
      if (reporter_.Cancelled()) {
        return MakeError(Reason::kCancelled, "the evaluation was cancelled");
      }
      GQ_RETURN_IF_ERROR(RunSlots(std::span(slots.data(), filled)));
      for (size_t i = 0; i < filled; ++i) {
        GQ_RETURN_IF_ERROR(Compare(slots[i]));
        if (!slots[i].kept) slots[i].kept = baseline_.Keep(slots[i].index, slots[i].reference);
      }
      reporter_.Report({"Evaluate", next, total, "samples"});
    }
    if (evaluation_.samples == 0) {
      return MakeError(Reason::kDataEmpty, "no sample is left to evaluate on",
                       "give samples without NaN and infinity");
    }
    return Finish();
  }

 private:
  int64_t NumberOfSamples() const {
    return options_.only.empty() ? data_.size() : static_cast<int64_t>(options_.only.size());
  }

  absl::Status MapOutputs() {
    const graph::GraphIndex index(candidate_.graph());
    const auto& outputs = reference_session_.outputs();
    const auto& others = runner_.outputs();
    std::vector<OutputShape> shapes;
    for (size_t i = 0; i < outputs.size(); ++i) {
      int at = OutputIndex(others, outputs[i].name);
      if (at < 0 && outputs.size() == others.size() &&
          reference_session_.OutputIndex(others[i].name) < 0) {
        at = static_cast<int>(i);
        AddWarning(StrCat("output '", outputs[i].name,
                          "' is compared with the candidate's output '", others[i].name,
                          "' at the same position"));
      }
      if (at < 0) {
        return MakeError(Reason::kModelInvalid,
                         StrCat("the candidate has no output '", outputs[i].name, "'"),
                         "compare two models with the same outputs");
      }
      candidate_outputs_.push_back(at);
      shapes.push_back({outputs[i].name, outputs[i].shape});
      ComparerOptions comparer;
      comparer.atol = options_.atol;
      comparer.rtol = options_.rtol;
      comparer.samples = NumberOfSamples();
      comparer.quantization_step = OutputStep(candidate_, index, others[at].name);
      comparer.class_rule = RuleFor(outputs[i].shape.size());
      comparer.open_shape = std::any_of(outputs[i].shape.begin(), outputs[i].shape.end(),
                                        [](int64_t dim) { return dim < 0; });
      if (options_.task == graph::TaskType::kSegmentation) {
        comparer.class_axis = SoftmaxAxis(index, others[at].name);
        comparer.masks = true;
      }
      comparers_.emplace_back(outputs[i].name, comparer);
    }
    if (options_.task == graph::TaskType::kDetection) detection_ = FindDetectionLayout(shapes);
    return absl::OkStatus();
  }

  bool WantsClasses() const {
    return options_.labels.has_value() ||
           std::any_of(options_.targets.begin(), options_.targets.end(), [](const auto& target) {
             return target.metric == Metric::kTop1 || target.metric == Metric::kTop5;
           });
  }

  ClassRule RuleFor(size_t rank) const {
    switch (options_.task) {
      case graph::TaskType::kClassification:
        return ClassRule::kAlways;
      case graph::TaskType::kSegmentation:
        return rank >= 3 ? ClassRule::kAlways : ClassRule::kIfDistributions;
      default:
        return WantsClasses() ? ClassRule::kAlways : ClassRule::kIfDistributions;
    }
  }

  static std::optional<int> SoftmaxAxis(const graph::GraphIndex& index, std::string_view output) {
    const onnx::NodeProto* node = index.Producer(output);
    for (int hops = 0; node != nullptr && hops < 4; ++hops) {
      if (node->op_type() == "Softmax" || node->op_type() == "LogSoftmax") {
        return static_cast<int>(graph::AttributeInt(*node, "axis", -1));
      }
      if (node->op_type() != "QuantizeLinear" && node->op_type() != "DequantizeLinear") break;
      node = index.Producer(graph::InputName(*node, 0));
    }
    return std::nullopt;
  }

  // An output that can have classes, by its static shape.
  std::optional<ClassLayout> Classes(size_t output) const {
    const runtime::TensorInfo& info = reference_session_.outputs()[output];
    if (!graph::IsFloatType(info.dtype)) return std::nullopt;
    return ClassLayoutOf(info.shape);
  }

  absl::Status CheckTargets() const {
    for (const TargetExpression& target : options_.targets) {
      const bool classes = target.metric == Metric::kTop1 || target.metric == Metric::kTop5;
      bool found = false;
      for (size_t i = 0; i < comparers_.size() && !found; ++i) {
        const int32_t dtype = reference_session_.outputs()[i].dtype;
        found = classes ? Classes(i).has_value() : graph::IsFloatType(dtype);
      }
      if (!found) {
        return MakeError(Reason::kTargetInvalid,
                         StrCat("target accuracy '", target.text, "': ",
                                classes ? "no output of the model has classes"
                                        : "the model has no float output"),
                         "choose a metric that the outputs have, for example psnr>=30");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckLabels() {
    if (!options_.labels) return absl::OkStatus();
    const auto given = static_cast<int64_t>(options_.labels->size());
    int64_t classes = 0;
    for (size_t i = 0; i < comparers_.size(); ++i) {
      const auto layout = Classes(i);
      if (!layout) continue;
      const int64_t wanted = data_.size() * layout->rows();
      if (given == wanted || (options_.allow_more_labels && given > wanted)) {
        labels_per_sample_ = layout->rows();
        classes = std::max(classes, layout->classes);
      }
    }
    if (labels_per_sample_ == 0) {
      return MakeError(Reason::kDataShapeMismatch,
                       StrCat("there are ", given, " labels for ", data_.size(),
                              " evaluation samples, and no output takes that many"),
                       "give one label for every row of class scores, in the order of the samples");
    }
    for (int64_t i = 0; i < given; ++i) {
      if ((*options_.labels)[i] >= classes) {
        return MakeError(Reason::kDataInvalid,
                         StrCat("label ", i, " is ", (*options_.labels)[i], ", but the model has ",
                                classes, " classes (0 to ", classes - 1, ")"),
                         "give class numbers as the model counts them; -1 marks an unknown one");
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunOne(Slot& slot) const {
    const auto run = [&slot](const auto& run_model, const std::vector<size_t>& map,
                             double* seconds) {
      slot.inputs.clear();
      for (const size_t at : map) slot.inputs.push_back(slot.sample[at]);
      const auto start = Clock::now();
      absl::Status status = run_model(slot.inputs);
      *seconds = SecondsSince(start);
      return status;
    };
    const auto run_reference = [&](const std::vector<runtime::Tensor>& inputs) {
      return reference_session_.Run(inputs, &slot.reference);
    };
    const auto run_candidate = [&](const std::vector<runtime::Tensor>& inputs) {
      return runner_.Run(slot.index, inputs, &slot.candidate);
    };
    // Memory that is shared with the baseline is not written again.
    if (slot.kept) slot.reference.clear();
    const std::vector<runtime::Tensor>* known = baseline_.Find(slot.index);
    slot.kept = known != nullptr;
    if (slot.kept) {
      slot.reference = *known;
      slot.reference_seconds = 0;
    } else if (absl::Status status = run(run_reference, reference_inputs_, &slot.reference_seconds);
               !status.ok()) {
      return base::AddContext(status, StrCat("reference model on sample ", slot.index));
    }
    if (absl::Status status = run(run_candidate, candidate_inputs_, &slot.candidate_seconds);
        !status.ok()) {
      return base::AddContext(status, StrCat("candidate model on sample ", slot.index));
    }
    return absl::OkStatus();
  }

  absl::Status RunSlots(std::span<Slot> slots) const {
    std::vector<std::future<absl::Status>> others;
    for (size_t i = 1; i < slots.size(); ++i) {
      others.push_back(
          std::async(std::launch::async, [this, &slots, i] { return RunOne(slots[i]); }));
    }
    absl::Status status = slots.empty() ? absl::OkStatus() : RunOne(slots[0]);
    for (auto& other : others) {
      absl::Status outcome = other.get();
      if (status.ok()) status = std::move(outcome);
    }
    return status;
  }

  absl::Status Compare(Slot& slot) {
    std::span<const int64_t> labels;
    if (labels_per_sample_ > 0) {
      labels = std::span(*options_.labels)
                   .subspan(static_cast<size_t>(slot.index * labels_per_sample_),
                            static_cast<size_t>(labels_per_sample_));
    }
    for (size_t i = 0; i < comparers_.size(); ++i) {
      GQ_RETURN_IF_ERROR(comparers_[i].AddSample(
          slot.reference[i], slot.candidate[static_cast<size_t>(candidate_outputs_[i])], labels));
    }
    if (detection_) CompareDetections();
    ++evaluation_.samples;
    evaluation_.reference_seconds += slot.reference_seconds;
    evaluation_.candidate_seconds += slot.candidate_seconds;
    return absl::OkStatus();
  }

  void CompareDetections() {
    std::vector<std::span<const float>> reference, candidate;
    for (const OutputComparer& comparer : comparers_) {
      reference.push_back(comparer.reference_values());
      candidate.push_back(comparer.candidate_values());
    }
    auto expected = ReadDetections(*detection_, reference, DetectionMatcher::kMinScore);
    auto found = ReadDetections(*detection_, candidate, DetectionMatcher::kMinScore);
    if (!expected || !found) {
      detection_.reset();
      return;
    }
    matcher_.AddSample(std::move(*expected), std::move(*found));
  }

  void AddWarning(std::string text) {
    reporter_.Warn("Evaluate", text);
    evaluation_.warnings.push_back(std::move(text));
  }

  absl::StatusOr<Evaluation> Finish() {
    for (const OutputComparer& comparer : comparers_) {
      evaluation_.outputs.push_back(comparer.Report());
      const OutputReport& output = evaluation_.outputs.back();
      if (output.samples_of_other_shape > 0) {
        AddWarning(StrCat("output '", output.name, "' has another shape than the reference's on ",
                          output.samples_of_other_shape, " of ", evaluation_.samples,
                          " samples; its shape depends on the data, and these samples are left "
                          "out of its figures"));
      }
      if (output.figures.nonfinite_reference > 0) {
        AddWarning(StrCat("output '", output.name, "' of the reference holds ",
                          output.figures.nonfinite_reference, " NaN or infinite elements"));
      }
      if (output.Broken()) {
        AddWarning(StrCat("output '", output.name, "' of the candidate holds ",
                          output.figures.nonfinite_candidate,
                          " NaN or infinite elements, first difference in sample ",
                          output.figures.worst_sample, " at element ",
                          output.figures.worst_element));
      }
      if (!output.is_float && output.figures.pass_rate < 100) {
        AddWarning(StrCat("output '", output.name, "' (", output.dtype, ") is equal in only ",
                          output.figures.pass_rate, " % of its elements"));
      }
    }
    if (detection_) evaluation_.detection = matcher_.Figures();
    evaluation_.verdict = Judge(options_.task, options_.targets, evaluation_.outputs,
                                evaluation_.detection, data_.random());
    return std::move(evaluation_);
  }

  const graph::Model& candidate_;
  runtime::DataSet& data_;
  const EvaluateOptions& options_;
  base::Reporter& reporter_;
  Baseline& baseline_;
  const runtime::Session& reference_session_;
  CandidateRunner& runner_;
  std::vector<size_t> reference_inputs_, candidate_inputs_;
  std::vector<int> candidate_outputs_;
  std::vector<OutputComparer> comparers_;
  int64_t labels_per_sample_ = 0;
  std::optional<DetectionLayout> detection_;
  DetectionMatcher matcher_;
  Evaluation evaluation_;
};

}  // namespace

absl::StatusOr<Baseline> Baseline::Create(const graph::Model& reference, int64_t max_bytes) {
  GQ_ASSIGN_OR_RETURN(runtime::Session session, MakeSession(reference, "reference"));
  return Baseline(std::move(session), max_bytes);
}

const std::vector<runtime::Tensor>* Baseline::Find(int64_t sample) const {
  const auto found = outputs_.find(sample);
  return found == outputs_.end() ? nullptr : &found->second;
}

bool Baseline::Keep(int64_t sample, const std::vector<runtime::Tensor>& outputs) {
  int64_t bytes = 0;
  for (const runtime::Tensor& tensor : outputs) {
    bytes += static_cast<int64_t>(tensor.bytes().size());
  }
  if (bytes > free_bytes_) return false;
  free_bytes_ -= bytes;
  return outputs_.emplace(sample, outputs).second;
}

absl::StatusOr<Evaluation> Evaluate(const graph::Model& reference, const graph::Model& candidate,
                                    runtime::DataSet& data, const EvaluateOptions& options,
                                    base::Reporter& reporter) {
  const auto start = Clock::now();
  GQ_ASSIGN_OR_RETURN(Baseline baseline, Baseline::Create(reference, /*max_bytes=*/0));
  const double session_seconds = SecondsSince(start);
  GQ_ASSIGN_OR_RETURN(Evaluation evaluation,
                      Evaluate(baseline, candidate, data, options, reporter));
  evaluation.session_seconds += session_seconds;
  evaluation.seconds = SecondsSince(start);
  return evaluation;
}

absl::StatusOr<Evaluation> Evaluate(Baseline& baseline, const graph::Model& candidate,
                                    runtime::DataSet& data, const EvaluateOptions& options,
                                    base::Reporter& reporter) {
  const auto start = Clock::now();
  GQ_ASSIGN_OR_RETURN(runtime::Session candidate_session, MakeSession(candidate, "candidate"));
  const double session_seconds = SecondsSince(start);
  SessionRunner runner(std::move(candidate_session));
  GQ_ASSIGN_OR_RETURN(Evaluation evaluation,
                      Evaluate(baseline, candidate, runner, data, options, reporter));
  evaluation.session_seconds = session_seconds;
  evaluation.seconds = SecondsSince(start);
  return evaluation;
}

absl::StatusOr<Evaluation> Evaluate(Baseline& baseline, const graph::Model& candidate,
                                    CandidateRunner& runner, runtime::DataSet& data,
                                    const EvaluateOptions& options, base::Reporter& reporter) {
  const auto start = Clock::now();
  Evaluator evaluator(candidate, data, options, reporter, baseline, runner);
  GQ_RETURN_IF_ERROR(evaluator.Prepare());
  GQ_ASSIGN_OR_RETURN(Evaluation evaluation, evaluator.Run());
  evaluation.seconds = SecondsSince(start);
  return evaluation;
}

absl::StatusOr<std::vector<int64_t>> ReadLabels(const std::string& path) {
  GQ_ASSIGN_OR_RETURN(const runtime::Tensor tensor, runtime::ReadNpy(path));
  const int32_t dtype = tensor.dtype();
  if (!graph::IsIntegerType(dtype)) {
    return MakeError(Reason::kDataTypeMismatch,
                     StrCat(path, ": labels are ", graph::DTypeName(dtype), ", expected integers"),
                     "save the class numbers as an integer array");
  }
  if (tensor.empty()) {
    return MakeError(Reason::kDataEmpty, StrCat(path, ": there are no labels"),
                     "give one class number for every evaluation sample");
  }
  return tensor.View().ToInts();
}

}  // namespace gq::accuracy
