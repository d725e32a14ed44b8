#include "common/rpc/channel.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace gq::rpc {
namespace {

using base::MakeError;
using base::Reason;

constexpr size_t kTokenLimit = 4096;

bool IsUnixAddress(std::string_view address) { return address.starts_with("unix:"); }

absl::Status CheckAddress(const std::string& address) {
  constexpr std::string_view kForms = "Give unix:PATH or HOST:PORT.";
  if (IsUnixAddress(address)) {
    if (address.size() > 5) return absl::OkStatus();
    return MakeError(Reason::kInvalidFlag, "the server address has no path after unix:", kForms);
  }
  const size_t colon = address.rfind(':');
  const std::string_view port =
      colon == std::string::npos ? "" : std::string_view(address).substr(colon + 1);
  const bool digits =
      !port.empty() && port.size() <= 5 &&
      std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (colon == 0 || !digits) {
    return MakeError(Reason::kInvalidFlag,
                     base::StrCat("'", address, "' is not the address of a server"), kForms);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadToken(const std::filesystem::path& path) {
  GQ_ASSIGN_OR_RETURN(const std::string content, base::ReadFile(path, kTokenLimit));
  const std::string token(base::StripSpace(content));
  const bool printable =
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (token.empty() || !printable) {
    return MakeError(Reason::kUnauthenticated,
                     base::StrCat(path.string(), ": does not hold a token"),
                     "The file must hold one line with the token.");
  }
  return token;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsCredentials(
    const ChannelOptions& options) {
  grpc::SslCredentialsOptions ssl;
  GQ_ASSIGN_OR_RETURN(ssl.pem_root_certs, base::ReadFile(options.ca_file));
  if (options.certificate_file.empty() != options.key_file.empty()) {
    return MakeError(Reason::kInvalidFlag, "a client certificate needs its key, and the reverse",
                     "Give both files or neither.");
  }
  if (!options.certificate_file.empty()) {
    GQ_ASSIGN_OR_RETURN(ssl.pem_cert_chain, base::ReadFile(options.certificate_file));
    GQ_ASSIGN_OR_RETURN(ssl.pem_private_key, base::ReadFile(options.key_file));
  }
  return grpc::SslCredentials(ssl);
}

std::filesystem::file_time_type TimeOf(const std::filesystem::path& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  return error ? std::filesystem::file_time_type::min() : time;
}

}  // namespace

bool IsLoopback(std::string_view host) {
  if (host == "localhost" || host == "::1" || host == "[::1]") return true;
  return host.starts_with("127.") &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

absl::StatusOr<std::shared_ptr<Channel>> Channel::Create(const ChannelOptions& options) {
  GQ_RETURN_IF_ERROR(CheckAddress(options.address));
  std::string token = options.token;
  std::filesystem::file_time_type token_time = std::filesystem::file_time_type::min();
  if (!options.token_file.empty()) {
    token_time = TimeOf(options.token_file);
    GQ_ASSIGN_OR_RETURN(token, ReadToken(options.token_file));
  }

  const bool is_unix = IsUnixAddress(options.address);
  const bool is_near = is_unix || IsLoopback(options.address.substr(0, options.address.rfind(':')));
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  if (is_unix) {
    credentials = grpc::experimental::LocalCredentials(UDS);
  } else if (!options.ca_file.empty()) {
    GQ_ASSIGN_OR_RETURN(credentials, TlsCredentials(options));
  } else if (is_near || options.allow_plaintext || token.empty()) {
    credentials = grpc::InsecureChannelCredentials();
  } else {
    return MakeError(
        Reason::kInvalidFlag,
        base::StrCat("the token would go to ", options.address, " in clear text, without TLS"),
        "Name the certificate authority of the server, or allow plain text explicitly.");
  }
  grpc::ChannelArguments args = ClientChannelArguments(options.use);
  if (is_near) args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);

  auto channel = std::shared_ptr<Channel>(new Channel());
  channel->channel_ = grpc::CreateCustomChannel(options.address, credentials, args);
  channel->address_ = options.address;
  channel->use_ = options.use;
  channel->token_file_ = options.token_file;
  absl::MutexLock lock(&channel->mutex_);
  channel->token_ = std::move(token);
  channel->token_time_ = token_time;
  return channel;
}

std::shared_ptr<Channel> Channel::Wrap(std::shared_ptr<grpc::Channel> channel,
                                       std::string address) {
  auto wrapped = std::shared_ptr<Channel>(new Channel());
  wrapped->channel_ = std::move(channel);
  wrapped->address_ = std::move(address);
  return wrapped;
}

std::string Channel::Token() const {
  absl::MutexLock lock(&mutex_);
  if (token_file_.empty()) return token_;
  if (const auto time = TimeOf(token_file_); time != token_time_) {
    if (absl::StatusOr<std::string> token = ReadToken(token_file_); token.ok()) {
      token_ = *std::move(token);
      token_time_ = time;
    }
  }
  return token_;
}

void Channel::Prepare(grpc::ClientContext& context, absl::Duration timeout) const {
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoNanoseconds(timeout));
  if (use_ == ChannelUse::kAgent) context.set_wait_for_ready(true);
  if (const std::string token = Token(); !token.empty()) {
    context.AddMetadata("authorization", "Bearer " + token);
  }
}

}  // namespace gq::rpc
