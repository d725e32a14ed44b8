#include "common/job/command_line.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::job {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

// The innermost command that was chosen.
const CLI::App& ChosenCommand(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : ChosenCommand(*chosen.front());
}

std::string FullName(const CLI::App& app) {
  if (app.get_parent() == nullptr) return app.get_name();
  return StrCat(FullName(*app.get_parent()), " ", app.get_name());
}

absl::Status UnknownArgument(const CLI::App& app, const std::string& argument) {
  const CLI::App& command = ChosenCommand(app);
  const std::string help = StrCat("'", FullName(command), " --help' lists what there is");
  const std::string name = argument.substr(0, argument.find('='));
  std::vector<std::string> candidates;
  const bool is_flag = name.size() > 1 && name[0] == '-';
  if (is_flag) {
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& flag : option->get_lnames()) candidates.push_back("--" + flag);
    }
  } else {
    for (const CLI::App* subcommand : command.get_subcommands(nullptr)) {
      candidates.push_back(subcommand->get_name());
    }
  }
  const std::vector<std::string> closest = base::ClosestNames(name, candidates);
  const std::string hint =
      closest.empty() ? help : StrCat("did you mean ", base::StrJoin(closest, " or "), "? ", help);
  const std::string_view kind = is_flag              ? "unknown flag "
                                : candidates.empty() ? "unexpected argument "
                                                     : "unknown command ";
  return MakeError(Reason::kInvalidFlag, StrCat(kind, "'", name, "' of '", FullName(command), "'"),
                   hint);
}

// Breaks `text` into lines of at most `width` characters at spaces.
std::vector<std::string> Wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines(1);
  for (std::string_view word : base::StrSplit(text, ' ')) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) {
      lines.emplace_back();
    }
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(size_t width) : width_(width) { column_width(26); }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string head = "  " + make_option_name(option, is_positional);
    if (!option->get_type_name().empty() && !is_positional) {
      head += " " + option->get_type_name();
    }
    return Entry(head, make_option_desc(option));
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return Entry("  " + command->get_name(), command->get_description());
  }

 private:
  std::string Entry(std::string head, const std::string& description) const {
    const size_t indent = get_column_width();
    std::string result;
    const std::vector<std::string> lines = Wrap(description, width_ - indent);
    size_t next = 0;
    if (head.size() + 1 < indent) {
      head.resize(indent, ' ');
      result = StrCat(head, lines[next++], "\n");
    } else {
      result = StrCat(head, "\n");
    }
    for (; next < lines.size(); ++next) {
      base::StrAppend(&result, std::string(indent, ' '), lines[next], "\n");
    }
    return result;
  }

  size_t width_;
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter(size_t width) {
  return std::make_shared<HelpFormatter>(width);
}

absl::StatusOr<ParsedCommandLine> ParseCommandLine(CLI::App& app,
                                                   std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForAllHelp&) {
    return ParsedCommandLine{ParseOutcome::kDone, app.help("", CLI::AppFormatMode::All)};
  } catch (const CLI::CallForHelp&) {
    return ParsedCommandLine{ParseOutcome::kDone, app.help()};
  } catch (const CLI::CallForVersion&) {
    return ParsedCommandLine{ParseOutcome::kDone, StrCat(app.version(), "\n")};
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> extra = app.remaining(true);
    if (!extra.empty()) return UnknownArgument(app, extra.front());
    const CLI::App& command = ChosenCommand(app);
    return MakeError(Reason::kInvalidFlag, error.what(),
                     StrCat("'", FullName(command), " --help' shows the usage"));
  }
  return ParsedCommandLine{};
}

}  // namespace gq::job
