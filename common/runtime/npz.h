// numpy's .npz files: zip archives of .npy entries, read as hostile input.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/runtime/npy.h"

namespace gq::runtime {

struct NpzLimits {
  int64_t max_entries = 65536;
  // An entry that claims more elements than this many bytes is refused, ...
  int64_t max_entry_bytes = int64_t{64} << 30;
  // ... and so is a compressed one that claims to grow by more than this factor and 64 MiB.
  int64_t max_ratio = 1100;
};

// An opened archive. Entries are decompressed while they are read; nothing is written to disk, so
// names with folders or ".." are only names, but they are refused all the same. Not thread-safe.
class NpzArchive {
 public:
  // FILE_NOT_FOUND, FILE_UNREADABLE, DATA_INVALID (no zip file, damaged, limits, duplicate keys,
  // encrypted or odd entries).
  static absl::StatusOr<std::unique_ptr<NpzArchive>> Open(const std::filesystem::path& path,
                                                          const NpzLimits& limits = {});
  virtual ~NpzArchive() = default;

  // Keys as numpy shows them (without ".npy"), in file order.
  virtual const std::vector<std::string>& keys() const = 0;
  // A reader of its own state; it keeps the archive open. DATA_KEY_MISMATCH for an unknown key.
  virtual absl::StatusOr<std::unique_ptr<ArrayReader>> OpenArray(std::string_view key) = 0;
};

// Everything at once; for small files.
absl::StatusOr<std::map<std::string, Tensor>> ReadNpz(const std::filesystem::path& path);

// Writes arrays uncompressed, in the order of the map. FILE_UNWRITABLE.
absl::Status WriteNpz(const std::filesystem::path& path,
                      const std::map<std::string, Tensor>& arrays);

}  // namespace gq::runtime
