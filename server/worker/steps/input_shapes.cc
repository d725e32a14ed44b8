#include "server/worker/steps/input_shapes.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/graph_index.h"
#include "common/graph/pinning.h"
#include "common/runtime/data_shapes.h"
#include "server/worker/steps/strategy.h"

namespace gq::worker {
namespace {

// detail.batch_size: the first dimension of every input whose other dimensions are known.
absl::Status PinBatch(int64_t batch, const graph::GraphIndex& index,
                      std::map<std::string, std::vector<int64_t>>* shapes) {
  for (const auto& input : index.graph().input()) {
    if (index.IsInitializer(input.name()) || shapes->contains(input.name())) continue;
    std::vector<int64_t> shape = index.Shape(input.name()).value_or(std::vector<int64_t>());
    if (shape.empty() || shape[0] == batch) continue;
    if (shape[0] >= 0) {
      return base::MakeError(base::Reason::kConfigInvalid,
                             base::StrCat("batch_size ", batch, ": the batch of input '",
                                          input.name(), "' is fixed at ", shape[0]),
                             "leave batch_size out, or export the model with an open batch");
    }
    shape[0] = batch;
    const bool known =
        std::all_of(shape.begin(), shape.end(), [](int64_t dim) { return dim >= 0; });
    if (known) shapes->emplace(input.name(), std::move(shape));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::map<std::string, std::vector<int64_t>>> InputShapes(const JobInputs& inputs,
                                                                        const graph::Model& model,
                                                                        base::Reporter& reporter) {
  GQ_ASSIGN_OR_RETURN(auto shapes, PinnedShapes(inputs.spec));
  const graph::GraphIndex index(model.graph());
  if (const int64_t batch = inputs.spec.quantize_detail().batch_size(); batch > 0) {
    GQ_RETURN_IF_ERROR(PinBatch(batch, index, &shapes));
  }
  const auto& files = inputs.calibration.empty() ? inputs.evaluation : inputs.calibration;
  if (files.empty()) return shapes;
  std::vector<runtime::OpenInput> open;
  for (const auto& input : model.graph().input()) {
    if (index.IsInitializer(input.name())) continue;
    std::vector<int64_t> shape = index.Shape(input.name()).value_or(std::vector<int64_t>());
    if (const auto given = shapes.find(input.name()); given != shapes.end()) shape = given->second;
    open.push_back({input.name(), std::move(shape)});
  }
  GQ_ASSIGN_OR_RETURN(auto found, runtime::ShapesOfData(files, open));
  for (auto& [name, shape] : found) {
    reporter.Info("Load",
                  base::StrCat("input '", name, "' ", graph::ShapeText(*index.Type(name)),
                               " gets its shape [", base::StrJoin(shape, ", "), "] from the data"));
    shapes.emplace(name, std::move(shape));
  }
  return shapes;
}

}  // namespace gq::worker
