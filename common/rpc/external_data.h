// Which external data files a model names, found without loading it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gq::rpc {

// Locations of external data in the ONNX model at `path` (`.onnxtxt` is read as text, anything else
// as binary), each once, in order of first use, relative to the model's folder. Reads the headers
// of tensors only and skips their content; looks into subgraphs, attributes, sparse tensors and
// functions. Fails with kFileNotFound, kFileUnreadable, kModelInvalid (not a model) or
// kExternalDataInvalid (absolute, `..`, more than 10,000 files).
absl::StatusOr<std::vector<std::string>> ListExternalDataFiles(const std::filesystem::path& path);

}  // namespace gq::rpc
