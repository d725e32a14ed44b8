#include "common/harness/harness_call.h"

#include <charconv>
#include <system_error>

#include "common/base/file.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::harness {
namespace {

namespace fs = std::filesystem;
using base::MakeError;
using base::Reason;
using base::StrCat;
using Json = nlohmann::ordered_json;

constexpr size_t kMaxJson = size_t{16} << 20;
constexpr std::string_view kProgress = "GQ-PROGRESS ";

std::string Text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool ParseCount(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// `GQ-PROGRESS 3 10 runs`
bool TakeProgress(std::string_view line, const std::string& component, base::Reporter& reporter) {
  if (!line.starts_with(kProgress)) return false;
  const auto words = base::StrSplit(line.substr(kProgress.size()), ' ');
  base::Progress progress;
  progress.component = component;
  if (words.size() < 2 || !ParseCount(words[0], progress.done) ||
      !ParseCount(words[1], progress.total)) {
    return false;
  }
  if (words.size() > 2) progress.unit = words[2];
  reporter.Report(progress);
  return true;
}

absl::Status FromResponse(const Json& response, const HarnessCall& call) {
  const std::string message = Text(response, "message");
  // Reasons that a program may give; anything else is the failure of the call.
  Reason reason = call.failure;
  const auto named = base::ReasonFromName(Text(response, "reason"));
  if (named && base::GetReasonInfo(*named).code != absl::StatusCode::kUnauthenticated) {
    reason = *named;
  }
  return MakeError(reason,
                   message.empty() ? StrCat(call.action, " failed without a message") : message,
                   Text(response, "hint"));
}

}  // namespace

absl::StatusOr<Json> CallHarness(const HarnessCall& call, base::Reporter& reporter) {
  const fs::path response_path = call.tool.work_dir / StrCat(call.action, ".response.json");
  const fs::path request_path = call.tool.work_dir / StrCat(call.action, ".request.json");
  Json request = {{"schema", kHarnessSchema},
                  {"action", call.action},
                  {"work_dir", call.tool.work_dir.string()},
                  {"response", response_path.string()}};
  request.update(call.request);
  std::error_code ignored;
  fs::remove(response_path, ignored);
  GQ_RETURN_IF_ERROR(base::WriteFileAtomically(
      request_path, request.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"));
  ToolCommand tool = call.tool;
  tool.arguments.push_back(request_path.string());
  GQ_ASSIGN_OR_RETURN(const ToolExit exit,
                      RunTool(
                          tool,
                          [&](std::string_view line) {
                            if (line.empty() || TakeProgress(line, call.component, reporter))
                              return;
                            reporter.Log(call.level, call.component, base::StripControl(line));
                          },
                          reporter));
  const absl::StatusOr<std::string> text = base::ReadFile(response_path, kMaxJson);
  const std::string program = fs::path(call.tool.arguments.front()).filename().string();
  if (!text.ok()) {
    return MakeError(call.failure,
                     StrCat(program, " ", exit.Describe(), " and left no response",
                            exit.last_lines.empty() ? std::string() : ": ", exit.last_lines),
                     "See what it printed in the log of the step.");
  }
  Json response = Json::parse(*text, nullptr, false);
  if (!response.is_object() || !response.contains("ok") || !response["ok"].is_boolean()) {
    return MakeError(call.failure,
                     StrCat(program,
                            " left a response that is no JSON object with "
                            "the field `ok`"),
                     "The contract is in docs/harness.md.");
  }
  if (!response["ok"].get<bool>()) return FromResponse(response, call);
  return response;
}

absl::StatusOr<Json> ReadHarnessRequest(const fs::path& path) {
  GQ_ASSIGN_OR_RETURN(const std::string text, base::ReadFile(path, kMaxJson));
  Json request = Json::parse(text, nullptr, false);
  if (!request.is_object() || Text(request, "action").empty() ||
      Text(request, "response").empty() || request.value("schema", 0) != kHarnessSchema) {
    return MakeError(Reason::kConfigInvalid,
                     StrCat(path.string(), ": expected a request with schema 1, action, response"));
  }
  return request;
}

absl::Status WriteHarnessResponse(const Json& request, const absl::StatusOr<Json>& fields) {
  Json response = {{"schema", kHarnessSchema}, {"ok", fields.ok()}};
  if (fields.ok()) {
    response.update(*fields);
  } else {
    response["reason"] = base::ReasonName(base::GetReason(fields.status()));
    response["message"] = base::FromAbsl(fields.status().message());
    response["hint"] = base::GetHint(fields.status());
  }
  return base::WriteFileAtomically(Text(request, "response"),
                                   response.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace gq::harness
