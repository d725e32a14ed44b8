#include "common/compile/summary.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/text.h"

namespace gq::compile {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The number at the front of `text` after blanks; takes it away. Thousands separators are skipped.
std::optional<double> TakeNumber(std::string_view& text) {
  size_t at = text.find_first_not_of(' ');
  if (at == std::string_view::npos) return std::nullopt;
  std::string digits;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (IsDigit(c) || c == '.' || (c == '-' && digits.empty())) {
      digits += c;
    } else if (c != ',' || at + 1 >= text.size() || !IsDigit(text[at + 1])) {
      break;
    }
  }
  double value;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  text.remove_prefix(at);
  return value;
}

// The number of the first "(99.594%)".
std::optional<double> TakePercent(std::string_view& text) {
  const size_t open = text.find('(');
  if (open == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(open + 1);
  const std::optional<double> percent = TakeNumber(rest);
  if (!percent || !rest.starts_with('%')) return std::nullopt;
  text = rest;
  return percent;
}

template <typename T>
std::optional<Share<T>> ParseShare(std::string_view value) {
  const std::optional<double> count = TakeNumber(value);
  const std::optional<double> percent = TakePercent(value);
  if (!count || !percent) return std::nullopt;
  return Share<T>{static_cast<T>(*count), *percent};
}

template <typename T>
std::optional<T> ParseNumber(std::string_view value) {
  const std::optional<double> number = TakeNumber(value);
  if (!number) return std::nullopt;
  return static_cast<T>(*number);
}

// One line as "key: value"; the key ends at the first colon that follows it.
struct Line {
  std::string_view key;
  std::string_view value;
};

std::optional<Line> SplitLine(std::string_view line) {
  line = base::StripSpace(line);
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  return Line{base::StripSpace(line.substr(0, colon)), base::StripSpace(line.substr(colon + 1))};
}

// The number between two texts, e.g. of a threshold inside a key.
std::optional<int> Between(std::string_view text, std::string_view before, std::string_view after) {
  if (!text.starts_with(before)) return std::nullopt;
  text.remove_prefix(before.size());
  const std::optional<double> number = TakeNumber(text);
  if (!number || !text.starts_with(after)) return std::nullopt;
  return static_cast<int>(*number);
}

bool ReadHeader(const Line& line, CompileSummary& out) {
  const auto& [key, value] = line;
  const std::pair<std::string_view, std::optional<std::string>*> texts[] = {
      {"Model", &out.model},
      {"Device", &out.device},
      {"Target Device", &out.device},
      {"Model data type", &out.model_data_type},
      {"Device data type", &out.device_data_type},
      {"Device Data Type", &out.device_data_type},
      {"NPU Frequency", &out.npu_frequency},
      {"FlexML Version", &out.flexml_version}};
  for (const auto& [name, field] : texts) {
    if (key != name) continue;
    *field = std::string(value);
    return true;
  }
  const std::pair<std::string_view, std::optional<int>*> numbers[] = {
      {"DP size", &out.dp_size},
      {"TP size", &out.tp_size},
      {"Optimize Level", &out.optimize_level},
      {"Threshold GOPs Percent", &out.threshold_percent},
      {"Number of subgraphs supported by VAIML", &out.subgraphs_supported},
      {"Number of subgraphs offloaded by VAIML", &out.subgraphs_offloaded},
      {"Number of partitions offloaded to NPU", &out.npu_partitions},
      {"Number of partitions executed on CPU", &out.cpu_partitions},
      {"Number of subgraphs with compilation errors (fall back to CPU)",
       &out.subgraphs_with_errors}};
  for (const auto& [name, field] : numbers) {
    if (key != name) continue;
    *field = ParseNumber<int>(value);
    return true;
  }
  return false;
}

bool ReadCounts(const Line& line, CompileSummary& out) {
  const auto& [key, value] = line;
  if (key == "Number of operators in the model") {
    out.operators = ParseNumber<int64_t>(value);
  } else if (key == "GOPs of the model") {
    out.gops = ParseNumber<double>(value);
  } else if (key == "Number of operators supported by VAIML") {
    out.operators_supported = ParseShare<int64_t>(value);
  } else if (key == "GOPs supported by VAIML") {
    out.gops_supported = ParseShare<double>(value);
  } else if (key == "Number of operators offloaded by VAIML") {
    out.operators_offloaded = ParseShare<int64_t>(value);
  } else if (key == "GOPs offloaded by VAIML") {
    out.gops_offloaded = ParseShare<double>(value);
  } else if (const auto percent = Between(key, "Number of subgraphs below ", "% GOPs threshold")) {
    out.threshold_percent = percent;
    out.subgraphs_below_threshold = ParseNumber<int>(value);
  } else if (const auto most =
                 Between(key, "Number of subgraphs above max number of subgraphs allowed(", ")")) {
    out.max_subgraphs = most;
    out.subgraphs_above_max = ParseNumber<int>(value);
  } else {
    return false;
  }
  return true;
}

bool ReadTimes(const Line& line, CompileTimes& out) {
  const std::pair<std::string_view, std::optional<double>*> times[] = {
      {"Frontend", &out.frontend},
      {"Backend", &out.backend},
      {"AIE Compile", &out.aie_compile},
      {"Overhead", &out.overhead},
      {"Total", &out.total}};
  for (const auto& [name, field] : times) {
    if (!line.key.starts_with(name)) continue;
    *field = ParseNumber<double>(line.value);
    return true;
  }
  return false;
}

void ReadSubgraph(const Line& line, SubgraphStats& out) {
  const auto& [key, value] = line;
  if (key == "Type") {
    out.type = std::string(value);
  } else if (key == "Operators") {
    out.operators = ParseShare<int64_t>(value);
  } else if (key == "GOPs") {
    out.gops = ParseShare<double>(value);
    const size_t ops = value.find("OPs:");
    if (ops != std::string_view::npos) out.ops = ParseNumber<int64_t>(value.substr(ops + 4));
  } else if (key == "OPs") {
    out.ops = ParseNumber<int64_t>(value);
  } else if (key == "int8 ops %") {
    out.int8_ops_percent = ParseNumber<double>(value);
  } else if (key == "fp32 ops %") {
    out.fp32_ops_percent = ParseNumber<double>(value);
  }
}

}  // namespace

CompileSummary ParseSummary(std::string_view text) {
  constexpr std::string_view kSubgraph = "Subgraph ";
  constexpr std::string_view kStats = " stats";
  CompileSummary summary;
  for (const std::string_view raw : base::StrSplit(text, '\n')) {
    const std::optional<Line> line = SplitLine(raw);
    if (!line) continue;
    if (line->key.starts_with(kSubgraph) && line->key.ends_with(kStats)) {
      const size_t length = line->key.size() - kSubgraph.size() - kStats.size();
      summary.subgraphs.emplace_back().name = line->key.substr(kSubgraph.size(), length);
    } else if (!ReadHeader(*line, summary) && !ReadCounts(*line, summary) &&
               !ReadTimes(*line, summary.seconds) && !summary.subgraphs.empty()) {
      ReadSubgraph(*line, summary.subgraphs.back());
    }
  }
  return summary;
}

}  // namespace gq::compile
