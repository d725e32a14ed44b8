// ONNX Runtime, opened at run time through its C API, so that one binary runs with the stock
// library and with a vendor's build.
#pragma once

#include <onnxruntime_c_api.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gq::runtime {

// The newest API version that is asked for; libraries that know at least kOldestOrtApi work.
inline constexpr uint32_t kNewestOrtApi = 21;
inline constexpr uint32_t kOldestOrtApi = 18;

// One opened library with its environment. It stays open until the process ends (ONNX Runtime does
// not survive being unloaded). Thread-safe.
class OrtLibrary {
 public:
  // The library of this process. Opened by the first call from the first of these that is given:
  // the path of Select (the flag --onnxruntime), the environment variable GQ_ONNXRUNTIME, the
  // bundled library (lib/libonnxruntime.so beside the program's folder, lib/gq/ of an installed
  // tree, build/deps of a source tree). RUNTIME_MISSING, with every place that was tried, when none
  // can be opened or its API is too old.
  static absl::StatusOr<const OrtLibrary*> Get();

  // Chooses the library by path; an empty path changes nothing. INVALID_FLAG when another library
  // is open already.
  static absl::Status Select(std::string_view path);

  const OrtApi& api() const { return *api_; }
  OrtEnv* env() const { return env_; }
  uint32_t api_version() const { return api_version_; }
  const std::string& version() const { return version_; }  // e.g. "1.32.0"
  const std::string& path() const { return path_; }

  // Execution providers that the library was built with, e.g. `CPUExecutionProvider`.
  absl::StatusOr<std::vector<std::string>> Providers() const;

  // Takes over `status` (null is success). RUNTIME_FAILED with ONNX Runtime's message, led by
  // `what`.
  absl::Status ToStatus(OrtStatus* status, std::string_view what) const;

  OrtLibrary(const OrtLibrary&) = delete;
  OrtLibrary& operator=(const OrtLibrary&) = delete;

 private:
  OrtLibrary() = default;
  static absl::StatusOr<const OrtLibrary*> Open(std::string_view path);

  const OrtApi* api_ = nullptr;
  OrtEnv* env_ = nullptr;
  uint32_t api_version_ = 0;
  std::string version_;
  std::string path_;
};

}  // namespace gq::runtime
