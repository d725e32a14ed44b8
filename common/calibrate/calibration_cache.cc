#include "common/calibrate/calibration_cache.h"

#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/runtime/ort_library.h"

namespace gq::calibrate {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "gq-calibration";
constexpr int kVersion = 1;
constexpr size_t kLargestFile = size_t{256} << 20;

constexpr std::pair<Grid, std::string_view> kGrids[] = {{Grid::kInt8, "int8"},
                                                        {Grid::kUint8, "uint8"},
                                                        {Grid::kInt16, "int16"},
                                                        {Grid::kUint16, "uint16"}};

std::string_view GridName(Grid grid) {
  for (const auto& [value, name] : kGrids) {
    if (value == grid) return name;
  }
  return "";
}

Grid GridFromName(const std::string& name) {
  for (const auto& [value, known] : kGrids) {
    if (known == name) return value;
  }
  throw std::invalid_argument("unknown grid");
}

json ToJson(const MethodSpec& method) {
  return {{"method", MethodName(method.method)},
          {"symmetric", method.symmetric},
          {"bins", method.bins},
          {"quantized_bins", method.quantized_bins},
          {"percentile", method.percentile},
          {"most_common", method.mode == MinMseMode::kMostCommon},
          {"candidates", method.candidates},
          {"squared_error", method.squared_error}};
}

MethodSpec MethodFromJson(const json& value) {
  auto method = ParseMethod(value.at("method").get<std::string>());
  if (!method.ok()) throw std::invalid_argument("unknown method");
  value.at("symmetric").get_to(method->symmetric);
  value.at("bins").get_to(method->bins);
  value.at("quantized_bins").get_to(method->quantized_bins);
  value.at("percentile").get_to(method->percentile);
  method->mode = value.at("most_common").get<bool>() ? MinMseMode::kMostCommon : MinMseMode::kAll;
  value.at("candidates").get_to(method->candidates);
  value.at("squared_error").get_to(method->squared_error);
  return *method;
}

json ToJson(const CalibrationTable& table) {
  json methods = json::array();
  for (const MethodSpec& method : table.methods) methods.push_back(ToJson(method));
  json tensors = json::object();
  for (const auto& [name, tensor] : table.tensors) {
    json ranges = json::array();
    for (const Range& range : tensor.ranges) ranges.push_back({range.min, range.max});
    tensors[name] = {{"min", tensor.min},
                     {"max", tensor.max},
                     {"mean_abs_max", tensor.mean_abs_max},
                     {"elements", tensor.elements},
                     {"grid", GridName(tensor.grid)},
                     {"ranges", std::move(ranges)}};
  }
  return {{"methods", std::move(methods)},   {"tensors", std::move(tensors)},
          {"left_out", table.left_out},      {"samples", table.samples},
          {"skipped", table.skipped},        {"data_digest", table.data_digest},
          {"random_data", table.random_data}};
}

CalibrationTable TableFromJson(const json& value) {
  CalibrationTable table;
  for (const json& method : value.at("methods")) table.methods.push_back(MethodFromJson(method));
  for (const auto& [name, tensor] : value.at("tensors").items()) {
    TensorCalibration& entry = table.tensors[name];
    tensor.at("min").get_to(entry.min);
    tensor.at("max").get_to(entry.max);
    tensor.at("mean_abs_max").get_to(entry.mean_abs_max);
    tensor.at("elements").get_to(entry.elements);
    entry.grid = GridFromName(tensor.at("grid").get<std::string>());
    for (const json& range : tensor.at("ranges")) {
      entry.ranges.push_back({range.at(0).get<float>(), range.at(1).get<float>()});
    }
    if (entry.ranges.size() != table.methods.size()) throw std::invalid_argument("ranges");
  }
  for (const auto& [name, reason] : value.at("left_out").items()) {
    table.left_out[name] = reason.get<std::string>();
  }
  value.at("samples").get_to(table.samples);
  value.at("skipped").get_to(table.skipped);
  value.at("data_digest").get_to(table.data_digest);
  value.at("random_data").get_to(table.random_data);
  return table;
}

std::filesystem::path FileOf(const std::filesystem::path& folder, std::string_view key) {
  return folder / base::StrCat(key, ".calibration.json");
}

}  // namespace

std::string CacheKey(std::string_view graph_digest, std::string_view data_digest,
                     std::span<const TensorRequest> tensors, std::span<const MethodSpec> methods,
                     const CalibrateOptions& options) {
  const auto library = runtime::OrtLibrary::Get();
  std::string text = base::StrCat(kFormat, " ", kVersion, "\n", graph_digest, "\n", data_digest,
                                  "\n", library.ok() ? (*library)->version() : "", "\n",
                                  options.quark_compatible ? "quark" : "default", " ",
                                  options.allow_nonfinite ? "lenient" : "strict", " ",
                                  CalibrationThreads(options), "\n");
  for (const MethodSpec& method : methods) base::StrAppend(&text, method.Key(), "\n");
  for (const TensorRequest& tensor : tensors) {
    base::StrAppend(&text, tensor.name.size(), " ", tensor.name, " ", GridName(tensor.grid), "\n");
  }
  return base::Sha256Hex(text);
}

std::optional<CalibrationTable> LoadCalibration(const std::filesystem::path& folder,
                                                std::string_view key) {
  const auto content = base::ReadFile(FileOf(folder, key), kLargestFile);
  if (!content.ok()) return std::nullopt;
  try {
    const json file = json::parse(*content);
    if (file.at("format") != kFormat || file.at("version") != kVersion || file.at("key") != key ||
        file.at("sha256") != base::Sha256Hex(file.at("table").dump())) {
      return std::nullopt;
    }
    return TableFromJson(file.at("table"));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

absl::Status StoreCalibration(const std::filesystem::path& folder, std::string_view key,
                              const CalibrationTable& table) {
  std::string bytes;
  try {
    const json content = ToJson(table);
    bytes = json{{"format", kFormat},
                 {"version", kVersion},
                 {"key", key},
                 {"sha256", base::Sha256Hex(content.dump())},
                 {"table", content}}
                .dump();
  } catch (const json::exception&) {
    return base::MakeError(base::Reason::kFileUnwritable,
                           "a tensor's name is not UTF-8, so the calibration is not kept");
  }
  GQ_RETURN_IF_ERROR(base::MakeFolder(folder));
  return base::WriteFileAtomically(FileOf(folder, key), bytes);
}

}  // namespace gq::calibrate
