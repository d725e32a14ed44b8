// Which files hold samples, and for which input of a model.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gq::runtime {

// The .npy and .npz files among `paths` and in the folders among them (not in theirs), each
// folder's in order of name; names that begin with a dot are left out. FILE_NOT_FOUND,
// FILE_UNREADABLE, DATA_INVALID for a file of another kind, DATA_EMPTY for a folder without any.
absl::StatusOr<std::vector<std::filesystem::path>> ListDataFiles(
    std::span<const std::filesystem::path> paths);

// Position among `inputs` of the one that a .npy file belongs to where a model has several:
// NAME.npy (with _ for / : \) or ifm_N.npy, a number and _ in front being left out.
// DATA_KEY_MISMATCH.
absl::StatusOr<size_t> InputOfFile(const std::filesystem::path& file,
                                   std::span<const std::string> inputs);

}  // namespace gq::runtime
