#include "common/graph/task_type.h"

namespace gq::graph {

std::optional<TaskType> TaskFromName(std::string_view name) {
  using enum TaskType;
  for (const TaskType task : {kClassification, kDetection, kSegmentation, kRegression}) {
    if (TaskTypeName(task) == name) return task;
  }
  return std::nullopt;
}

}  // namespace gq::graph
