#include <algorithm>
#include <exception>
#include <string>

#include "common/base/status.h"
#include "common/base/text.h"
#include "common/graph/model.h"
#include "onnx/checker.h"
#include "onnx/shape_inference/implementation.h"

namespace gq::graph {
namespace {

// The onnx library breaks its messages over several lines and marks nested contexts with arrows.
std::string OneLine(std::string text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == '\t') {
      if (!line.empty() && line.back() != ' ') line += ' ';
    } else {
      line += c;
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace

absl::Status CheckModel(const Model& model) {
  try {
    onnx::checker::check_model(model.ToProtoWithStoredAsInputs(), /*full_check=*/true);
  } catch (const std::exception& error) {
    return base::MakeError(base::Reason::kModelInvalid,
                           base::StrCat("the ONNX checker says: ", OneLine(error.what())),
                           "Export the model again, or check it with onnx.checker.check_model.");
  }
  return absl::OkStatus();
}

}  // namespace gq::graph
