// Parsing a command line without exceptions, with errors and help in the product's form.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

// CLI11 is large; who builds command lines includes it.
namespace CLI {
class App;
class FormatterBase;
}  // namespace CLI

namespace gq::job {

enum class ParseOutcome {
  kRun,   // go on
  kDone,  // help or version was asked for; `text` is to be printed on standard output
};

struct ParsedCommandLine {
  ParseOutcome outcome = ParseOutcome::kRun;
  std::string text;
};

// Parses `arguments` (without the program's name). An unknown flag or command is INVALID_FLAG with
// the closest names as hint.
absl::StatusOr<ParsedCommandLine> ParseCommandLine(CLI::App& app,
                                                   std::vector<std::string> arguments);

// Help in which option descriptions are wrapped to `width` columns. For CLI::App::formatter of the
// top application; subcommands that are added later inherit it.
std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter(size_t width = 80);

}  // namespace gq::job
