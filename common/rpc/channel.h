// A connection to the server: address, credentials and the rules for calls.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/rpc/channel_args.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

namespace gq::rpc {

// Deadlines of calls; no call goes without one.
inline constexpr absl::Duration kUnaryTimeout = absl::Seconds(10);
inline constexpr absl::Duration kCreateTimeout = absl::Seconds(20);
inline constexpr absl::Duration kAppendLogTimeout = absl::Seconds(15);
inline constexpr absl::Duration kStreamTimeout = absl::Minutes(30);
inline constexpr absl::Duration kBlobTimeout = absl::Hours(2);

struct ChannelOptions {
  // `unix:/path/of/socket` or `HOST:PORT`.
  std::string address;
  // File with the bearer token, mode 0600 expected; empty means no token. Read again when it
  // changes.
  std::filesystem::path token_file;
  // A token given directly; used when token_file is empty.
  std::string token;
  // Certificate authorities (PEM) for TLS; empty means no TLS.
  std::filesystem::path ca_file;
  // Certificate and key of the client for mutual TLS; both or neither.
  std::filesystem::path certificate_file;
  std::filesystem::path key_file;
  // Send the token in clear text to a host that is not this one. Refused otherwise.
  bool allow_plaintext = false;
  ChannelUse use = ChannelUse::kClient;
};

// Whether a host (of HOST:PORT) can only be this one: `localhost`, `::1` with or without brackets,
// or an IPv4 address of 127.0.0.0/8. A name that merely begins like one is not.
bool IsLoopback(std::string_view host);

// Thread-safe. Connecting happens in the background, at the first call.
class Channel {
 public:
  // Fails with kInvalidFlag on a malformed address or combination, kFileNotFound, kFileUnreadable
  // or kUnauthenticated on token and certificate files.
  static absl::StatusOr<std::shared_ptr<Channel>> Create(const ChannelOptions& options);

  // Around an existing gRPC channel, without a token; for tests with an in-process server.
  static std::shared_ptr<Channel> Wrap(std::shared_ptr<grpc::Channel> channel,
                                       std::string address = "in-process");

  // For the constructors of stubs.
  const std::shared_ptr<grpc::Channel>& grpc() const { return channel_; }
  const std::string& address() const { return address_; }
  ChannelUse use() const { return use_; }

  // Prepares one call: deadline, `authorization: Bearer ...`, and for agents wait-for-ready. Never
  // fails: a token file that has become unreadable is reported by the server's UNAUTHENTICATED.
  void Prepare(grpc::ClientContext& context, absl::Duration timeout) const;

 private:
  Channel() = default;
  std::string Token() const;

  std::shared_ptr<grpc::Channel> channel_;
  std::string address_;
  ChannelUse use_ = ChannelUse::kClient;
  std::filesystem::path token_file_;
  mutable absl::Mutex mutex_;
  mutable std::string token_ ABSL_GUARDED_BY(mutex_);
  mutable std::filesystem::file_time_type token_time_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gq::rpc
