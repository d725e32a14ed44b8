#include "common/compile/cpu_because.h"

#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/base/text.h"

namespace gq::compile {
namespace {

constexpr std::string_view kMarker = "CpuBecause";
constexpr std::string_view kAttributes = "attributes";

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The string literal that begins at `at` (on its opening quote), unescaped as MLIR writes it; `at`
// moves behind it. Nothing when it does not end.
std::optional<std::string> ReadString(std::string_view text, size_t& at) {
  std::string value;
  for (size_t i = at + 1; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      at = i + 1;
      return value;
    }
    if (c != '\\' || i + 1 >= text.size()) {
      value += c;
      continue;
    }
    const char next = text[++i];
    if (std::isxdigit(static_cast<unsigned char>(next)) && i + 1 < text.size() &&
        std::isxdigit(static_cast<unsigned char>(text[i + 1]))) {
      value += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
      ++i;
    } else if (next == 'n') {
      value += '\n';
    } else if (next == 't') {
      value += '\t';
    } else {
      value += next;
    }
  }
  return std::nullopt;
}

// Reads the attributes of the block whose brace is at `at`: NAME = "STRING" at depth 0. `at` moves
// behind the block. False when the block does not end.
bool ReadBlock(std::string_view text, size_t& at,
               std::vector<std::pair<std::string, std::string>>& attributes) {
  int depth = 0;
  std::string name;
  bool after_equals = false;
  size_t i = at;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '"') {
      const std::optional<std::string> value = ReadString(text, i);
      if (!value) return false;
      if (depth == 1 && after_equals) attributes.emplace_back(name, *value);
      after_equals = false;
      continue;
    }
    if (c == '{' || c == '[' || c == '(' || c == '<') {
      ++depth;
    } else if (c == '}' || c == ']' || c == ')' || (c == '>' && i > 0 && text[i - 1] != '-')) {
      if (--depth == 0) {
        at = i + 1;
        return true;
      }
    } else if (depth == 1 && IsWord(c)) {
      const size_t start = i;
      while (i < text.size() && IsWord(text[i])) ++i;
      name = std::string(text.substr(start, i - start));
      after_equals = false;
      continue;
    } else if (depth == 1 && c == '=') {
      after_equals = true;
    } else if (c == ',') {
      after_equals = false;
    }
    ++i;
  }
  return false;
}

struct Advice {
  std::string_view text;  // in lower case
  std::string_view remedy;
};

constexpr std::array kAdvice = {
    Advice{
        "at the edge",
        "Usually accepted; --edge-quant moves it into the runtime, which changes the type of the "
        "model's inputs or outputs."},
    Advice{"user requested",
           "Nothing: the configuration asks for it. Take the layer off the list to offload it."},
    Advice{"tosa.cast",
           "Enable the conversion of float layers (bf16 or f16), match power-of-two kernels, or "
           "quantize at the boundary (--edge-quant)."},
    Advice{"quantizelinear",
           "Use power-of-two scales with zero point 0 and match-power-of-two-quant-kernel=1, or "
           "quantize at the boundary (--edge-quant)."},
    Advice{"float32", "Enable the conversion of float layers (bf16 or f16)."},
    Advice{"transpose", "Move the transpose away from the edge of the graph, or accept it there."},
    Advice{"dataformat", "Move the transpose away from the edge of the graph, or accept it there."},
    Advice{"reshape", "Small data movement is usually best left on the CPU; else restructure it."},
    Advice{"small tensor",
           "Small tensors are usually best left on the CPU; else restructure them."},
    Advice{"tosa.select", "Selections on booleans usually stay on the CPU; else restructure them."},
};

}  // namespace

std::string_view CpuBecauseClassName(CpuBecauseClass c) {
  switch (c) {
    case CpuBecauseClass::kUser:
      return "user";
    case CpuBecauseClass::kTiling:
      return "tiling";
    case CpuBecauseClass::kFrontEnd:
      return "fe";
    case CpuBecauseClass::kBackEnd:
      return "be";
    case CpuBecauseClass::kKernelLibrary:
      return "mllib";
    case CpuBecauseClass::kUnclassified:
      break;
  }
  return "unclassified";
}

std::vector<CpuBecause> ScanCpuBecause(std::string_view text) {
  std::vector<CpuBecause> found;
  size_t at = 0;
  while ((at = text.find(kAttributes, at)) != std::string_view::npos) {
    at += kAttributes.size();
    const size_t open = text.find_first_not_of(" \t\r\n", at);
    if (open == std::string_view::npos || text[open] != '{') continue;
    std::vector<std::pair<std::string, std::string>> attributes;
    size_t end = open;
    if (!ReadBlock(text, end, attributes)) break;
    // Blocks of operations inside this one are found on their own.
    at = open + 1;
    CpuBecause because;
    bool is_cpu = false;
    for (auto& [name, value] : attributes) {
      if (name == "Reason") is_cpu = value == kMarker;
      if (name == "Op") because.op = std::move(value);
      if (name == "LayerName") because.layer = std::move(value);
      if (name == "Message") because.message = std::move(value);
    }
    if (!is_cpu) continue;
    found.push_back(std::move(because));
    at = end;
  }
  return found;
}

std::vector<std::string> ParseBreakReasons(std::string_view line) {
  constexpr std::string_view kCall = "CpuBecause(\"";
  std::vector<std::string> messages;
  size_t at = 0;
  while ((at = line.find(kCall, at)) != std::string_view::npos) {
    size_t quote = at + kCall.size() - 1;
    const std::optional<std::string> message = ReadString(line, quote);
    if (!message) break;
    messages.push_back(*message);
    at = quote;
  }
  return messages;
}

CpuBecauseClass ClassifyCpuBecause(std::string_view message) {
  const auto has = [&](std::string_view part) {
    return message.find(part) != std::string_view::npos;
  };
  if (has("User requested this layer to be partitioned out")) return CpuBecauseClass::kUser;
  if (has("Unwrapping layer with")) return CpuBecauseClass::kTiling;
  if (has("[FE]")) return CpuBecauseClass::kFrontEnd;
  if (has("[BE]")) return CpuBecauseClass::kBackEnd;
  if (has("[MLLIB]")) return CpuBecauseClass::kKernelLibrary;
  return CpuBecauseClass::kUnclassified;
}

std::string RemedyFor(std::string_view message) {
  const std::string lower = absl::AsciiStrToLower(base::ToAbsl(message));
  for (const Advice& advice : kAdvice) {
    if (lower.find(advice.text) != std::string::npos) return std::string(advice.remedy);
  }
  switch (ClassifyCpuBecause(message)) {
    case CpuBecauseClass::kTiling:
      return "Make the layer smaller (resolution, channels), or change tp_size and dp_size.";
    case CpuBecauseClass::kFrontEnd:
      return "Change compiler options first, then the quantization around the layer.";
    case CpuBecauseClass::kBackEnd:
      return "Try another optimize_level; report it to the vendor if it stays.";
    case CpuBecauseClass::kKernelLibrary:
      return "The kernel library has no such kernel: replace the operator, or leave it on the CPU.";
    default:
      return "Not a known reason; the message is the compiler's own.";
  }
}

}  // namespace gq::compile
