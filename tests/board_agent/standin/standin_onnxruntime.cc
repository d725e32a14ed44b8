// Stands in for the vendor's ONNX Runtime: the stock library (its path in GQ_STANDIN_REAL) with a
// VitisAI execution provider that behaves as documented. Creating a session compiles: the files
// appear in CACHE_DIR/CACHE_KEY. Where a compiled model lies there already, the session runs it.
//
// GQ_STANDIN tells how it behaves: empty, `no-device` (the exception of a host without an NPU),
// `error-lines` (errors in the log, and yet a session), `fallback` (everything stays on the CPU,
// silently), `no-rai` (a session and no compiled model), `run-fallback` (compiles, and then runs on
// the CPU), `crash`, `absent` (a library without the provider).
#include <dlfcn.h>
#include <onnxruntime_c_api.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

namespace {

namespace fs = std::filesystem;

constexpr char kProvider[] = "VitisAIExecutionProvider";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}
bool Behaves(const char* how) { return Variable("GQ_STANDIN") == how; }

struct Library {
  const OrtApi* real = nullptr;
  OrtApi api;
  std::mutex mutex;
  // Options of the provider by session options.
  std::map<const OrtSessionOptions*, std::map<std::string, std::string>> sessions;
};
Library& TheLibrary() {
  static auto& library = *new Library;
  return library;
}

OrtStatus* Fail(const std::string& message) {
  return TheLibrary().real->CreateStatus(ORT_FAIL, message.c_str());
}

void Write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Summary(bool fallback) {
  const std::string share = fallback ? "0 (0.000%)" : "2 (100.000%)";
  const std::string gops = fallback ? "0.000 (0.000%)" : "0.002 (100.000%)";
  return "----- Compiler Information -----\n"
         "Target device: ve2 (part number: xc2ve3858)\n"
         "Device data type: bfloat16\n"
         "NPU frequency: 1267 MHz\n"
         "Number of operators in the model: 2\n"
         "GOPs of the model: 0.002\n"
         "Number of operators supported by VAIML: 2 (100.000%)\n"
         "GOPs supported by VAIML: 0.002 (100.000%)\n"
         "Number of operators offloaded by VAIML: " +
         share + "\nGOPs offloaded by VAIML: " + gops +
         "\nNumber of partitions offloaded to NPU: " + (fallback ? "0" : "1") +
         "\nNumber of partitions executed on CPU: " + (fallback ? "1" : "0") +
         "\nNumber of subgraphs with compile errors (fall back to CPU): 0\n"
         "Number of subgraphs below 20% GOPs threshold (fall back to CPU): " +
         (fallback ? "1" : "0") + "\n";
}

OrtStatus* CompileHere(const std::map<std::string, std::string>& options, const char* model) {
  const auto get = [&](const char* key) {
    const auto found = options.find(key);
    return found != options.end() ? found->second : std::string();
  };
  const std::string config = ReadAll(get("config_file"));
  if (get("target") != "VAIML" || config.find("\"targets\"") == std::string::npos ||
      config.find("\"target\"") == std::string::npos) {
    return Fail("VitisAI: target or config_file is wrong");
  }
  if (get("cache_dir").empty() || get("cache_key").empty() ||
      get("enable_cache_file_io_in_mem") != "0") {
    return Fail("VitisAI: cache_dir, cache_key and enable_cache_file_io_in_mem=0 are expected");
  }
  struct rlimit stack;
  if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur != stack.rlim_max) {
    return Fail("VitisAI: the stack limit was not raised");
  }
  const std::string key = get("cache_key");
  const fs::path folder = fs::path(get("cache_dir")) / key;
  const fs::path compiled = folder / (key + ".rai");
  if (fs::exists(compiled)) {
    const bool fallback = Behaves("run-fallback");
    std::printf(
        "I20261130 12:00:00.000001 77 ep.cpp:42] [Vitis AI EP] No. of Operators :\n"
        " VAIML 2\n[Vitis AI EP] No. of Subgraphs :\n NPU 1\n Actually running on NPU %d\n",
        fallback ? 0 : 1);
    std::fflush(stdout);
    return nullptr;
  }
  if (Behaves("crash")) std::raise(SIGSEGV);
  const bool fallback = Behaves("fallback");
  std::printf(
      "INFO: [VAIP-VAIML-PASS] No. of Operators :\n VAIML %d\n VITIS_EP_CPU %d\n"
      "INFO: [VAIP-VAIML-PASS] No. of Subgraphs :\n NPU %d\n",
      fallback ? 0 : 2, fallback ? 2 : 0, fallback ? 0 : 1);
  std::fflush(stdout);
  Write(folder / "AIECompiler.log", Behaves("error-lines")
                                        ? "INFO: start\nERROR: [aiecompiler 77-753] no buffer\n"
                                        : "INFO: start\nINFO: done ERROR:0)\n");
  Write(folder / "final-vaiml-pass-summary.txt", Summary(fallback));
  if (!Behaves("no-rai")) {
    std::ofstream(compiled, std::ios::binary) << ReadAll(model);
  }
  if (!fallback) Write(folder / "vaiml_par_0" / "0" / "flexmlrt-hsi.json", "{}");
  if (Behaves("no-device")) return Fail("ERROR during FlexMLHWRunner creation:  No such device");
  return nullptr;
}

OrtStatus* ORT_API_CALL AppendProvider(OrtSessionOptions* options, const char* name,
                                       const char* const* keys, const char* const* values,
                                       size_t count) noexcept {
  Library& library = TheLibrary();
  if (std::strcmp(name, "VitisAI") != 0 || Behaves("absent")) {
    return library.real->SessionOptionsAppendExecutionProvider(options, name, keys, values, count);
  }
  const std::lock_guard lock(library.mutex);
  for (size_t i = 0; i < count; ++i) library.sessions[options][keys[i]] = values[i];
  return nullptr;
}

OrtStatus* ORT_API_CALL CreateSession(const OrtEnv* env, const ORTCHAR_T* model,
                                      const OrtSessionOptions* options, OrtSession** out) noexcept {
  Library& library = TheLibrary();
  std::map<std::string, std::string> provider;
  {
    const std::lock_guard lock(library.mutex);
    provider = library.sessions[options];
  }
  if (!provider.empty()) {
    if (OrtStatus* status = CompileHere(provider, model); status != nullptr) return status;
  }
  return library.real->CreateSession(env, model, options, out);
}

OrtStatus* ORT_API_CALL Providers(char*** names, int* count) noexcept {
  static char vitis[] = "VitisAIExecutionProvider";
  static char cpu[] = "CPUExecutionProvider";
  static char* with[] = {vitis, cpu};
  static_assert(sizeof vitis == sizeof kProvider);
  *names = Behaves("absent") ? with + 1 : with;
  *count = Behaves("absent") ? 1 : 2;
  return nullptr;
}
OrtStatus* ORT_API_CALL ReleaseProviders(char** /*names*/, int /*count*/) noexcept {
  return nullptr;
}

const OrtApiBase* RealBase() {
  void* handle = dlopen(Variable("GQ_STANDIN_REAL").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  const auto get = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
  return get != nullptr ? get() : nullptr;
}

const OrtApi* ORT_API_CALL GetApi(uint32_t version) noexcept {
  Library& library = TheLibrary();
  const OrtApiBase* base = RealBase();
  library.real = base != nullptr ? base->GetApi(version) : nullptr;
  if (library.real == nullptr) return nullptr;
  library.api = *library.real;
  library.api.SessionOptionsAppendExecutionProvider = AppendProvider;
  library.api.CreateSession = CreateSession;
  library.api.GetAvailableProviders = Providers;
  library.api.ReleaseAvailableProviders = ReleaseProviders;
  return &library.api;
}

const char* ORT_API_CALL GetVersionString() noexcept { return "1.20.1"; }

}  // namespace

extern "C" __attribute__((visibility("default"))) const OrtApiBase* OrtGetApiBase() noexcept {
  static const OrtApiBase base = {GetApi, GetVersionString};
  return &base;
}
