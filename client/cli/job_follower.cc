#include "client/cli/job_follower.h"

#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "client/cli/job_text.h"
#include "common/base/log_format.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::cli {
namespace {

using base::StrCat;
using Json = nlohmann::ordered_json;

// The log has ended; so long the last event may take before it is no longer waited for.
constexpr absl::Duration kPatienceForLastEvent = absl::Seconds(5);

// Shows the events of a job, which come beside the log.
class EventView {
 public:
  EventView(ServiceClient& client, const gq::v1::Job& job, Console& console)
      : client_(client), job_(job), console_(console) {}

  void Show(const gq::v1::JobEvent& event) {
    if (console_.options().json) {
      if (event.sequence() != 0 || event.has_progress()) {
        Json line = ToJson(event);
        line.erase("final");
        Json tagged = {{"event", event.has_progress() ? "progress" : "state"}};
        tagged.update(line);
        console_.PrintJson(tagged);
      }
      return;
    }
    if (event.job_state() == gq::v1::JOB_STATE_QUEUED) {
      // Without a terminal only a wait that lasts is worth a line: signs of life come every few
      // seconds.
      if (console_.interactive() || event.sequence() == 0) ShowWaiting();
    } else if (event.has_progress() && event.step_index() >= 0 &&
               event.step_index() < job_.steps_size()) {
      console_.SetProgress(StrCat("[", event.step_index() + 1, "/", job_.steps_size(), "] ",
                                  job_.steps(event.step_index()).title(), ": ",
                                  ProgressText(event.progress())));
    } else if (event.step_state() == gq::v1::STEP_STATE_SKIPPED && event.step_index() >= 0 &&
               event.step_index() < job_.steps_size()) {
      console_.Print(StrCat("\n[", event.step_index() + 1, "/", job_.steps_size(), "] ",
                            base::StripControl(job_.steps(event.step_index()).title()),
                            " not run: ", base::StripControl(event.message()), "\n"));
    } else if (event.sequence() != 0) {
      console_.SetProgress("");
    }
  }

 private:
  void ShowWaiting() {
    const auto job = client_.GetJob(job_.id());
    if (!job.ok() || job->waiting_reason().empty() || job->waiting_reason() == waiting_reason_) {
      return;
    }
    waiting_reason_ = job->waiting_reason();
    console_.SetProgress(StrCat("waiting: ", waiting_reason_));
    if (!console_.interactive()) console_.Note(StrCat("waiting: ", waiting_reason_));
  }

  ServiceClient& client_;
  const gq::v1::Job& job_;
  Console& console_;
  std::string waiting_reason_;
};

// Shows stored log bytes.
class LogView {
 public:
  LogView(Console& console, const FollowOptions& options)
      : console_(console),
        options_(options),
        shown_({.quiet = console.options().quiet,
                .verbose = console.options().verbose,
                .color = console.color(),
                .zone = console.zone()}),
        kept_({.verbose = true, .zone = console.zone()}) {}

  void Feed(rpc::LogPosition position, std::string_view bytes) {
    if (options_.keep_log) log_ += kept_.Feed(bytes);
    if (!options_.show_log) return;
    if (console_.options().json) {
      FeedJson(position, bytes);
    } else {
      console_.Print(shown_.Feed(bytes));
    }
  }

  std::string Finish() {
    if (options_.show_log) console_.Print(shown_.Finish());
    return options_.keep_log ? log_ + kept_.Finish() : std::string();
  }

 private:
  void FeedJson(rpc::LogPosition position, std::string_view bytes) {
    int64_t offset = position.offset - static_cast<int64_t>(pending_.size());
    pending_.append(bytes);
    size_t begin = 0;
    for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string_view line = std::string_view(pending_).substr(begin, end - begin);
      Json event = {{"event", "log"}, {"attempt", position.attempt}, {"offset", offset + begin}};
      if (const auto parsed = base::ParseStoredLine(line)) {
        event["time"] = std::string(line.substr(0, line.find(' ')));
        event["level"] = base::LevelName(parsed->level);
        event["component"] = parsed->component;
        event["text"] = base::StripControl(parsed->text);
      } else {
        event["text"] = base::StripControl(line);
      }
      console_.PrintJson(event);
    }
    pending_.erase(0, begin);
  }

  Console& console_;
  const FollowOptions& options_;
  base::LogRenderer shown_;
  base::LogRenderer kept_;
  std::string pending_;
  std::string log_;
};

}  // namespace

absl::StatusOr<FollowResult> FollowJob(ServiceClient& client, const gq::v1::Job& job,
                                       Console& console, FollowOptions options,
                                       std::stop_token stop) {
  FollowResult result;
  EventView events(client, job, console);
  LogView log(console, options);

  std::stop_source stop_watching;
  std::stop_callback forward(stop, [&stop_watching] { stop_watching.request_stop(); });
  absl::Notification watch_ended;
  std::jthread watcher([&] {
    if (!options.follow) return watch_ended.Notify();
    // The log alone is enough to go on: an error of the events is not worth failing for.
    client
        .WatchJob(
            job.id(), [&events](const gq::v1::JobEvent& event) { events.Show(event); },
            stop_watching.get_token())
        .IgnoreError();
    watch_ended.Notify();
  });

  rpc::LogTailOptions tail_options;
  tail_options.stop = stop;
  tail_options.follow = options.follow;
  tail_options.on_reconnect = [&console](const absl::Status& reason, absl::Duration delay) {
    console.Note(StrCat("connection lost (", reason.message(), "); trying again in ",
                        base::FormatDuration(delay)));
  };
  result.position = options.from;
  const auto end = rpc::TailLog(
      client.channel(), job.id(), options.from,
      [&](rpc::LogPosition position, std::string_view bytes) {
        log.Feed(position, bytes);
        result.position = {position.attempt, position.offset + static_cast<int64_t>(bytes.size())};
      },
      tail_options);

  if (end.ok()) watch_ended.WaitForNotificationWithTimeout(kPatienceForLastEvent);
  stop_watching.request_stop();
  watcher.join();
  console.SetProgress("");
  result.log = log.Finish();

  if (stop.stop_requested()) {
    result.detached = true;
    result.job = job;
    return result;
  }
  if (!end.ok()) return end.status();
  GQ_ASSIGN_OR_RETURN(result.job, client.GetJob(job.id()));
  return result;
}

}  // namespace gq::cli
