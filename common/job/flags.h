// The flags of `gq run` and of the other commands that start work, in one table shared by gq and
// gq-worker: name, help, default, legal values, validation, and how a value gets into the request
// (flag_table.cc). The user guide and run.yaml use the same names.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gq/v1/job_service.pb.h"

// CLI11 is large; who builds command lines includes it.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gq::job {

// Commands that take job flags; a mask in FlagDef::verbs.
enum Verb : unsigned {
  kVerbRun = 1 << 0,
  kVerbAnalyze = 1 << 1,
  kVerbQuantize = 1 << 2,
  kVerbDequantize = 1 << 3,
  kVerbRequantize = 1 << 4,
  kVerbEvaluate = 1 << 5,
  kVerbDryRun = 1 << 6,
  kVerbExplore = 1 << 7,
  kVerbCompile = 1 << 8,
  kVerbBoardRun = 1 << 9,
};

enum class Program { kClient, kWorker };

// What a command line says beside the job itself: local files, and how to show things.
struct LocalOptions {
  std::string model;
  std::string reference;
  std::string quantized;  // analyze; Take() makes it the model, and the model its reference
  std::vector<std::string> calibration_data;  // files and folders, in the order given
  std::vector<std::string> evaluation_data;
  std::string labels;
  std::string config_file;  // set when --config names a file; its text is in spec.config_json
  std::string run_file;
  std::string detail_file;
  std::string server;
  std::string work_dir = "gq-runs";
  std::string compiled;       // folder of a finished compile, in place of a model
  bool show_options = false;  // of the compiler, and nothing else
  bool detach = false;
  bool json = false;
  bool yes = false;
  bool quiet = false;
  bool verbose = false;
  bool no_color = false;
  bool local = false;
  bool utc = false;
};

// A request before its files are uploaded: file references of `spec` are not set.
struct JobRequest {
  gq::v1::JobSpec spec;
  LocalOptions local;
};

enum class FlagShape {
  kSwitch,  // no value
  kValue,   // one value, given once
  kRepeat,  // one value each time it is given
  kComma,   // values separated by commas, may be given several times
  kPaths,   // one or more values after the flag
};

struct FlagDef {
  std::string_view name;  // without dashes
  FlagShape shape;
  std::string_view value_name;  // in the help text
  std::string_view group;       // heading in the help text
  std::string_view default_text;
  std::string_view help;
  std::vector<std::string_view> legal;  // empty: checked by `apply` alone
  unsigned verbs;                       // mask of Verb
  bool client_only;
  // Puts the values, at least one and none of them empty, into the request.
  absl::Status (*apply)(const FlagDef& flag, std::span<const std::string> values,
                        JobRequest& request);
};

// Every flag, in the order of the help text.
const std::vector<FlagDef>& AllFlags();
const FlagDef* FindFlag(std::string_view name);

// Flags (`explore`) and values of flags (`mode=dry-run`) that are refused with NOT_AVAILABLE.
std::span<const std::string_view> UnavailableFlags();

// Checks `values` of a flag (availability, count, legal values) and applies them. INVALID_FLAG,
// NOT_AVAILABLE, SCHEME_ILLEGAL, FILE_NOT_FOUND or FILE_UNREADABLE otherwise.
absl::Status ApplyFlag(const FlagDef& flag, std::span<const std::string> values,
                       JobRequest& request);

// The job flags of one command of a CLI11 application. Lives at least as long as the application
// parses.
class JobFlags {
 public:
  // Adds the flags that `verb` takes to `app`. The model may also be given as first positional
  // argument, except for `gq run`.
  JobFlags(CLI::App& app, Verb verb, Program program);

  // The request that the parsed command line describes; kind and stage are set from the verb.
  // Errors as ApplyFlag, and INVALID_FLAG for flags that are missing or contradict each other.
  absl::StatusOr<JobRequest> Take() const;

  // Whether the command line gave this flag.
  bool Given(std::string_view name) const;

 private:
  struct Binding {
    const FlagDef* flag;
    CLI::Option* option;
    std::vector<std::string> values;
    bool set = false;
  };

  Verb verb_;
  Program program_;
  std::string positional_model_;
  std::map<std::string_view, Binding> bindings_;
};

// The 30s, 10m, 2h, 1d, or plain seconds of a flag; INVALID_FLAG naming the flag otherwise.
absl::StatusOr<int64_t> ParseSeconds(std::string_view flag, std::string_view text);

}  // namespace gq::job
