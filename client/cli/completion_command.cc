// `gq completion bash|zsh|fish`, generated from the commands as they are declared.
#include <functional>
#include <string>
#include <vector>

#include "client/cli/command.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "common/job/flags.h"

namespace gq::cli {
namespace {

using base::StrAppend;
using base::StrCat;

// A command with the words that lead to it: `gq jobs list`.
struct CommandPath {
  std::string words;
  const CLI::App* command;
};

std::vector<CommandPath> AllCommands(const CLI::App& root) {
  std::vector<CommandPath> result;
  const std::function<void(const CLI::App&, const std::string&)> visit =
      [&](const CLI::App& command, const std::string& prefix) {
        const std::string words =
            prefix.empty() ? command.get_name() : StrCat(prefix, " ", command.get_name());
        result.push_back({words, &command});
        for (const CLI::App* subcommand : command.get_subcommands(nullptr)) {
          visit(*subcommand, words);
        }
      };
  visit(root, "");
  return result;
}

std::vector<std::string> FlagsOf(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::vector<std::string> SubcommandsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : command.get_subcommands(nullptr)) {
    names.push_back(subcommand->get_name());
  }
  return names;
}

// Values of `gq run`'s flags that are chosen from a list: `--mode` -> `full dry-run requantize`.
std::string LegalValueCases() {
  std::string text;
  for (const job::FlagDef& flag : job::AllFlags()) {
    if (flag.legal.empty()) continue;
    StrAppend(&text, "    --", flag.name, ") COMPREPLY=($(compgen -W '",
              base::StrJoin(flag.legal, " "), "' -- \"$current\")); return ;;\n");
  }
  return text;
}

// One function serves bash and, through its bash emulation, zsh.
std::string BashScript(const CLI::App& root) {
  std::string known;
  std::string cases;
  for (const CommandPath& path : AllCommands(root)) {
    if (path.command->get_parent() != nullptr) {
      StrAppend(&known, known.empty() ? "" : "|", "'", path.words, "'");
    }
    std::vector<std::string> words = SubcommandsOf(*path.command);
    for (std::string& flag : FlagsOf(*path.command)) words.push_back(std::move(flag));
    StrAppend(&cases, "    '", path.words, "') words='", base::StrJoin(words, " "), "' ;;\n");
  }
  return StrCat(
      "# Completion of gq. For bash: source <(gq completion bash)\n"
      "_gq() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local path=gq words='' word\n"
      "  case $previous in\n",
      LegalValueCases(),
      "  esac\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case $word in -*) break ;; esac\n"
      "    case \"$path $word\" in\n"
      "      ",
      known,
      ") path=\"$path $word\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case $path in\n",
      cases,
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  case $current in -*) ;; *) COMPREPLY+=($(compgen -f -- \"$current\")) ;; esac\n"
      "}\n"
      "complete -o filenames -F _gq gq\n");
}

std::string FishQuoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string FishScript(const CLI::App& root) {
  std::string text = "# Completion of gq. For fish: gq completion fish | source\n";
  for (const CommandPath& path : AllCommands(root)) {
    // The words after `gq` that have to be there, and the subcommands that must not.
    std::string condition;
    for (std::string_view word : base::StrSplit(path.words, ' ')) {
      if (word == root.get_name()) continue;
      StrAppend(&condition, condition.empty() ? "" : "; and ", "__fish_seen_subcommand_from ",
                word);
    }
    const std::vector<std::string> subcommands = SubcommandsOf(*path.command);
    if (!subcommands.empty()) {
      StrAppend(&condition, condition.empty() ? "" : "; and ", "not __fish_seen_subcommand_from ",
                base::StrJoin(subcommands, " "));
    }
    for (const CLI::App* subcommand : path.command->get_subcommands(nullptr)) {
      StrAppend(&text, "complete -c gq -n ", FishQuoted(condition), " -f -a ",
                subcommand->get_name(), " -d ", FishQuoted(subcommand->get_description()), "\n");
    }
    for (const CLI::Option* option : path.command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        StrAppend(&text, "complete -c gq -n ", FishQuoted(condition), " -l ", name,
                  option->get_items_expected_max() > 0 ? " -r" : "");
        const job::FlagDef* flag = job::FindFlag(name);
        if (flag != nullptr && !flag->legal.empty()) {
          StrAppend(&text, " -f -a ", FishQuoted(base::StrJoin(flag->legal, " ")));
        }
        text += "\n";
      }
    }
  }
  return text;
}

}  // namespace

void AddCompletionCommand(CLI::App& root, CommandSet& commands) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = commands.Add(
      root, "completion", "Print a completion script for a shell.",
      "source <(gq completion bash)\nsource <(gq completion zsh)\ngq completion fish | source",
      [&commands, shell]() -> absl::StatusOr<int> {
        Session& session = commands.session();
        const CLI::App& root = *session.root;
        if (*shell == "bash") {
          session.console.PrintAlways(BashScript(root));
        } else if (*shell == "zsh") {
          session.console.PrintAlways("autoload -U +X bashcompinit && bashcompinit\n" +
                                      BashScript(root));
        } else if (*shell == "fish") {
          session.console.PrintAlways(FishScript(root));
        } else {
          return base::MakeError(base::Reason::kInvalidFlag,
                                 StrCat("no completion for the shell '", *shell, "'"),
                                 "bash, zsh or fish");
        }
        return 0;
      });
  command->add_option("SHELL", *shell, "bash, zsh or fish.")->required();
}

}  // namespace gq::cli
