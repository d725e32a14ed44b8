// Data that a model keeps in files beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/graph/mapped_file.h"
#include "common/graph/tensor_store.h"
#include "onnx/onnx_pb.h"

namespace gq::graph {

// Opens the data files of one model, each once. A file must lie inside the model's folder after
// symbolic links are followed; locations are relative, without "..".
class ExternalDataReader {
 public:
  explicit ExternalDataReader(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The bytes of a tensor whose data_location is EXTERNAL: a part of the mapped file, or a copy
  // where the mapped bytes are not aligned to the element type. EXTERNAL_DATA_INVALID names tensor,
  // file and the numbers that do not fit.
  absl::StatusOr<Buffer> Read(const onnx::TensorProto& tensor);

  // Location of the first file that was read; empty when none was.
  const std::string& first_location() const { return first_location_; }

 private:
  absl::StatusOr<std::shared_ptr<const MappedFile>> OpenFile(const std::string& location,
                                                             const onnx::TensorProto& tensor);

  std::filesystem::path folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
  std::string first_location_;
};

}  // namespace gq::graph
