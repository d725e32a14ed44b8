#include "common/runtime/ort_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::runtime {
namespace {

using base::MakeError;
using base::Reason;

constexpr std::string_view kHint =
    "Give the path of libonnxruntime.so with --onnxruntime or GQ_ONNXRUNTIME, or run tools/setup.";

struct Process {
  std::mutex mutex;
  std::string selected;                 // guarded by mutex
  const OrtLibrary* library = nullptr;  // guarded by mutex
};

// Never destroyed: sessions may outlive static destruction.
Process& TheProcess() {
  static auto* process = new Process;
  return *process;
}

// Libraries that may come with the program, nearest first.
std::vector<std::string> BundledCandidates() {
  std::vector<std::string> candidates;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return candidates;
  const std::filesystem::path folder = program.parent_path();
  candidates.push_back((folder.parent_path() / "lib" / "libonnxruntime.so").string());
  candidates.push_back((folder.parent_path() / "lib" / "gq" / "libonnxruntime.so").string());
  for (std::filesystem::path up = folder; up.has_relative_path(); up = up.parent_path()) {
    const std::filesystem::path deps = up / "deps" / "onnxruntime" / "lib";
    for (const auto& entry : std::filesystem::directory_iterator(deps, error)) {
      if (entry.path().filename().string().starts_with("libonnxruntime.so")) {
        candidates.push_back(entry.path().string());
      }
    }
    error.clear();
  }
  return candidates;
}

// ONNX Runtime 1.N.x speaks API versions up to N.
uint32_t ApiVersionOf(std::string_view version) {
  const std::vector<std::string_view> parts = base::StrSplit(version, '.');
  uint32_t minor = 0;
  if (parts.size() < 2 || parts[0] != "1" ||
      std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), minor).ec !=
          std::errc()) {
    return 0;
  }
  return std::min(minor, kNewestOrtApi);
}

// Errors reach the caller as statuses; nothing is printed.
void DropLog(void*, OrtLoggingLevel, const char*, const char*, const char*, const char*) {}

}  // namespace

absl::StatusOr<const OrtLibrary*> OrtLibrary::Open(std::string_view path) {
  const std::string file(path);
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return MakeError(Reason::kRuntimeMissing, why != nullptr ? why : "cannot be opened", kHint);
  }
  using GetApiBase = const OrtApiBase* (*)();
  const auto get_base = reinterpret_cast<GetApiBase>(dlsym(handle, "OrtGetApiBase"));
  if (get_base == nullptr) {
    return MakeError(Reason::kRuntimeMissing, base::StrCat(path, " is not ONNX Runtime"), kHint);
  }
  const OrtApiBase* api_base = get_base();
  std::unique_ptr<OrtLibrary> library(new OrtLibrary);
  library->version_ = api_base->GetVersionString();
  library->api_version_ = ApiVersionOf(library->version_);
  library->path_ = file;
  if (library->api_version_ >= kOldestOrtApi) {
    library->api_ = api_base->GetApi(library->api_version_);
  }
  if (library->api_ == nullptr) {
    return MakeError(Reason::kRuntimeMissing,
                     base::StrCat(path, " is ONNX Runtime ", library->version_, "; 1.",
                                  kOldestOrtApi, " or newer is needed"),
                     kHint);
  }
  GQ_RETURN_IF_ERROR(
      library->ToStatus(library->api_->CreateEnvWithCustomLogger(
                            DropLog, nullptr, ORT_LOGGING_LEVEL_FATAL, "gq", &library->env_),
                        "ONNX Runtime did not start"));
  return library.release();
}

absl::StatusOr<const OrtLibrary*> OrtLibrary::Get() {
  Process& process = TheProcess();
  std::lock_guard lock(process.mutex);
  if (process.library != nullptr) return process.library;

  // A library that somebody asked for is used or fails; only the bundled ones are tried in turn.
  const char* variable = std::getenv("GQ_ONNXRUNTIME");
  std::string wanted = process.selected;
  std::string_view source = "--onnxruntime";
  if (wanted.empty() && variable != nullptr) {
    wanted = variable;
    source = "GQ_ONNXRUNTIME";
  }
  if (!wanted.empty()) {
    auto library = Open(wanted);
    if (!library.ok()) return base::AddContext(library.status(), base::StrCat(source, " ", wanted));
    return process.library = *library;
  }
  std::vector<std::string> tried;
  for (const std::string& candidate : BundledCandidates()) {
    std::error_code error;
    if (!std::filesystem::exists(candidate, error)) {
      tried.push_back(candidate);
      continue;
    }
    auto library = Open(candidate);
    if (library.ok()) return process.library = *library;
    tried.push_back(base::StrCat(candidate, " (", base::FromAbsl(library.status().message()), ")"));
  }
  return MakeError(Reason::kRuntimeMissing,
                   base::StrCat("ONNX Runtime was not found; tried ", base::StrJoin(tried, ", ")),
                   kHint);
}

absl::Status OrtLibrary::Select(std::string_view path) {
  if (path.empty()) return absl::OkStatus();
  Process& process = TheProcess();
  std::lock_guard lock(process.mutex);
  if (process.library != nullptr && process.library->path() != path) {
    return MakeError(
        Reason::kInvalidFlag,
        base::StrCat("--onnxruntime ", path, ": ", process.library->path(), " is open already"),
        "Choose the library before the first model is opened.");
  }
  process.selected = std::string(path);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> OrtLibrary::Providers() const {
  char** names = nullptr;
  int count = 0;
  GQ_RETURN_IF_ERROR(ToStatus(api_->GetAvailableProviders(&names, &count), "providers"));
  std::vector<std::string> providers(names, names + count);
  GQ_RETURN_IF_ERROR(ToStatus(api_->ReleaseAvailableProviders(names, count), "providers"));
  return providers;
}

absl::Status OrtLibrary::ToStatus(OrtStatus* status, std::string_view what) const {
  if (status == nullptr) return absl::OkStatus();
  const std::string message = base::StrCat(what, ": ", api_->GetErrorMessage(status));
  api_->ReleaseStatus(status);
  return MakeError(Reason::kRuntimeFailed, message);
}

}  // namespace gq::runtime
