#include "common/rpc/step_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "common/base/status.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/rpc/status.pb.h"

namespace gq::rpc {
namespace {

using base::MakeError;
using base::Reason;

constexpr uint32_t kMaxFrameBytes = 64 << 20;
constexpr size_t kMaxVarint32Bytes = 5;

template <typename Message>
std::string Envelope(const Message& message) {
  google::protobuf::Any any;
  any.PackFrom(message);
  return EncodeFrame(any.SerializeAsString());
}

bool SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

absl::Status ParentGone() {
  return MakeError(Reason::kLeaseLost, "the iteration could not be recorded: the parent is gone");
}

}  // namespace

std::string EncodeFrame(std::string_view message) {
  uint8_t prefix[kMaxVarint32Bytes];
  const uint8_t* end = google::protobuf::io::CodedOutputStream::WriteVarint32ToArray(
      static_cast<uint32_t>(message.size()), prefix);
  std::string frame(reinterpret_cast<const char*>(prefix), static_cast<size_t>(end - prefix));
  frame.append(message);
  return frame;
}

bool DecodeFrame(std::string& buffer, std::string& message, bool& bad) {
  bad = false;
  uint32_t length = 0;
  size_t at = 0;
  for (int shift = 0;; shift += 7) {
    if (at == kMaxVarint32Bytes) {
      bad = true;
      return false;
    }
    if (at == buffer.size()) return false;
    const auto byte = static_cast<uint8_t>(buffer[at++]);
    length |= static_cast<uint32_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) break;
  }
  if (length > kMaxFrameBytes) {
    bad = true;
    return false;
  }
  if (buffer.size() - at < length) return false;
  message.assign(buffer, at, length);
  buffer.erase(0, at + length);
  return true;
}

std::unique_ptr<StepChannel> StepChannel::FromEnvironment() {
  const char* value = std::getenv(kStepEventFdVariable);
  return std::make_unique<StepChannel>(value != nullptr ? std::atoi(value) : -1);
}

StepChannel::~StepChannel() {
  if (fd_ >= 0) ::close(fd_);
}

void StepChannel::SendProgress(const gq::v1::StepProgress& progress) {
  absl::MutexLock lock(&mutex_);
  if (fd_ >= 0) SendAll(fd_, Envelope(progress));
}

absl::Status StepChannel::SendIteration(const gq::v1::Iteration& iteration) {
  absl::MutexLock lock(&mutex_);
  if (fd_ < 0) return absl::OkStatus();
  if (!SendAll(fd_, Envelope(iteration))) return ParentGone();
  std::string buffer;
  std::string message;
  bool bad = false;
  while (!DecodeFrame(buffer, message, bad)) {
    char bytes[4096];
    const ssize_t n = ::read(fd_, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (bad || n <= 0) return ParentGone();
    buffer.append(bytes, static_cast<size_t>(n));
  }
  google::rpc::Status answer;
  if (!answer.ParseFromString(message)) return ParentGone();
  if (answer.code() == 0) return absl::OkStatus();
  return MakeError(answer.code() == static_cast<int>(absl::StatusCode::kCancelled)
                       ? Reason::kCancelled
                       : Reason::kLeaseLost,
                   answer.message());
}

}  // namespace gq::rpc
