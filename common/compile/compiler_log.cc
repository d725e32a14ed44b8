#include "common/compile/compiler_log.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "common/base/text.h"
#include "common/compile/cpu_because.h"

namespace gq::compile {
namespace {

constexpr size_t kMaxErrors = 1000;
constexpr size_t kMaxErrorBytes = 1000;

bool Has(std::string_view line, std::string_view part) {
  return line.find(part) != std::string_view::npos;
}

std::optional<double> NumberAt(std::string_view text) {
  text = base::StripSpace(text);
  double value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// The line without `INFO:` and without what glog puts before the message.
std::string_view Message(std::string_view line) {
  line = base::StripSpace(line);
  // I20260101 10:00:00.000000  1234 file.cpp:12] message
  if (line.size() > 9 && std::string_view("IWEF").find(line[0]) != std::string_view::npos &&
      std::all_of(line.begin() + 1, line.begin() + 5,
                  [](char c) { return c >= '0' && c <= '9'; })) {
    const size_t bracket = line.find("] ");
    if (bracket != std::string_view::npos) line = base::StripSpace(line.substr(bracket + 2));
  }
  for (const std::string_view prefix : {"INFO:", "[Vitis AI EP]"}) {
    if (line.starts_with(prefix)) line = base::StripSpace(line.substr(prefix.size()));
  }
  return line;
}

// `NAME   COUNT` with a name of words; nothing else.
std::optional<std::pair<std::string, int64_t>> ParseCount(std::string_view message) {
  const size_t space = message.find_last_of(" \t");
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view digits = message.substr(space + 1);
  int64_t count;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  const std::string_view name = base::StripSpace(message.substr(0, space));
  const bool words = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == ' ';
  });
  if (!words) return std::nullopt;
  return std::pair(std::string(name), count);
}

// `ERROR: [` at the start, or `ERROR:N)` with N > 0 anywhere.
bool IsError(std::string_view line) {
  constexpr std::string_view kError = "ERROR:";
  if (line.starts_with(kError) && base::StripSpace(line.substr(kError.size())).starts_with('[')) {
    return true;
  }
  for (size_t at = line.find(kError); at != std::string_view::npos;
       at = line.find(kError, at + 1)) {
    const std::string_view rest = line.substr(at + kError.size());
    int64_t count = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), count);
    if (error == std::errc() && count > 0 && end < rest.data() + rest.size() && *end == ')') {
      return true;
    }
  }
  return false;
}

void ReadPercent(std::string_view line, CompilerLog& log) {
  constexpr std::string_view kText = "% of operations will run on AIE";
  const size_t at = line.find(kText);
  if (at == std::string_view::npos) return;
  const size_t start = line.substr(0, at).find_last_not_of("0123456789.") + 1;
  log.aie_percent = NumberAt(line.substr(start, at - start));
}

void ReadPartitions(std::string_view line, CompilerLog& log) {
  constexpr std::string_view kText = "Partition completed with ";
  const size_t at = line.find(kText);
  if (at == std::string_view::npos) return;
  if (const auto n = NumberAt(line.substr(at + kText.size())))
    log.partitions = static_cast<int>(*n);
}

void ReadKernel(std::string_view message, CompilerLog& log) {
  if (!message.starts_with("kernel:") && !message.starts_with("templatedGraph:")) return;
  const size_t comma = message.rfind(',');
  if (comma == std::string_view::npos) return;
  if (const auto count = NumberAt(message.substr(comma + 1))) {
    log.kernels[std::string(base::StripSpace(message.substr(0, comma)))] +=
        static_cast<int64_t>(*count);
  }
}

}  // namespace

CompilerLog ParseCompilerLog(std::string_view text) {
  CompilerLog log;
  std::map<std::string, int64_t>* block = nullptr;
  for (std::string_view line : base::StrSplit(text, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (IsError(line) && log.errors.size() < kMaxErrors) {
      log.errors.emplace_back(line.substr(0, kMaxErrorBytes));
    }
    if (Has(line, "ERROR during FlexMLHWRunner creation") && Has(line, "No such device")) {
      log.no_device = true;
    }
    ReadPercent(line, log);
    ReadPartitions(line, log);
    if (Has(line, "breaks at: CpuBecause(")) {
      for (const std::string& message : ParseBreakReasons(line)) ++log.break_reasons[message];
    }
    const std::string_view message = Message(line);
    ReadKernel(message, log);
    if (Has(message, "No. of Operators :")) {
      block = &log.operators;
    } else if (Has(message, "No. of Subgraphs :")) {
      block = &log.subgraphs;
    } else if (block != nullptr) {
      if (const auto count = ParseCount(message)) {
        (*block)[count->first] = count->second;
      } else {
        block = nullptr;
      }
    }
  }
  return log;
}

void Merge(const CompilerLog& more, CompilerLog& log) {
  if (more.partitions) log.partitions = more.partitions;
  if (more.aie_percent) log.aie_percent = more.aie_percent;
  for (const auto& [name, count] : more.operators) log.operators[name] = count;
  for (const auto& [name, count] : more.subgraphs) log.subgraphs[name] = count;
  for (const auto& [message, count] : more.break_reasons) log.break_reasons[message] += count;
  for (const auto& [name, count] : more.kernels) log.kernels[name] += count;
  log.errors.insert(log.errors.end(), more.errors.begin(), more.errors.end());
  log.no_device |= more.no_device;
}

}  // namespace gq::compile
