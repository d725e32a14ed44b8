#include "server/auth/authenticator.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/escaping.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/base/text.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr std::string_view kPrefix = "gq_";
constexpr std::string_view kScheme = "Bearer ";
constexpr size_t kSecretBytes = 32;
constexpr size_t kIdDigits = 16;
constexpr std::string_view kAgentPrincipal = "agent:";
constexpr std::string_view kAdminTokenId = "admin";

std::string RandomHex(size_t bytes) {
  std::string random(bytes, '\0');
  // A system without random numbers cannot go on.
  if (RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), static_cast<int>(bytes)) != 1) {
    std::abort();
  }
  return absl::BytesToHexString(base::ToAbsl(random));
}

std::string HashOf(std::string_view token) {
  return absl::HexStringToBytes(base::Sha256Hex(token));
}

absl::Status BadToken() {
  return MakeError(Reason::kUnauthenticated, "the token is not known or has expired",
                   "set GQ_TOKEN_FILE to the file with a token that an administrator gave you");
}

Role RoleFromName(std::string_view name) {
  for (Role role : {Role::kSubmitter, Role::kOperator, Role::kAdmin, Role::kAgent}) {
    if (RoleName(role) == name) return role;
  }
  return Role::kViewer;
}

bool IsLocal(const grpc::ServerContextBase& context) {
  const std::string peer = context.peer();
  return peer.rfind("unix:", 0) == 0;
}

}  // namespace

std::string_view RoleName(Role role) {
  static constexpr std::array<std::string_view, 6> kNames = {"viewer", "submitter", "operator",
                                                             "admin",  "agent",     "enrolment"};
  return kNames[static_cast<size_t>(role)];
}

// The id of a token must not hold the mark that ends it in the token's text.
std::string EnrolmentTokenId(std::string_view agent) {
  return StrCat("e", base::Sha256Hex(agent).substr(0, kIdDigits));
}
std::string AgentTokenId(std::string_view agent) {
  return StrCat("a", base::Sha256Hex(agent).substr(0, kIdDigits));
}
std::string AgentPrincipal(std::string_view agent) { return StrCat(kAgentPrincipal, agent); }
std::string_view AgentOfPrincipal(std::string_view principal) {
  if (principal.substr(0, kAgentPrincipal.size()) != kAgentPrincipal) return "";
  return principal.substr(kAgentPrincipal.size());
}

NewToken MakeToken(std::string_view principal, Role role, std::string_view id) {
  NewToken token;
  token.record.id = id.empty() ? RandomHex(6) : std::string(id);
  token.text = StrCat(kPrefix, token.record.id, "_", RandomHex(kSecretBytes));
  token.record.principal = std::string(principal);
  // In the ledger an enrolment is an agent's token; its id tells it apart.
  token.record.role = std::string(RoleName(role == Role::kEnrolment ? Role::kAgent : role));
  token.record.hash = HashOf(token.text);
  return token;
}

static Role RoleOf(const TokenRecord& token) {
  const std::string_view agent = AgentOfPrincipal(token.principal);
  if (!agent.empty() && token.id == EnrolmentTokenId(agent)) return Role::kEnrolment;
  return RoleFromName(token.role);
}

void Authenticator::SetTokens(std::vector<TokenRecord> tokens) {
  absl::MutexLock lock(&mutex_);
  tokens_.clear();
  for (TokenRecord& token : tokens) {
    std::string id = token.id;
    tokens_.emplace(std::move(id), std::move(token));
  }
}

absl::StatusOr<Principal> Authenticator::CheckToken(std::string_view token) const {
  const std::string hash = HashOf(token);
  if (token.substr(0, kPrefix.size()) != kPrefix) return BadToken();
  const std::string_view rest = token.substr(kPrefix.size());
  absl::MutexLock lock(&mutex_);
  const auto found = tokens_.find(rest.substr(0, rest.find('_')));
  if (found == tokens_.end()) return BadToken();
  const TokenRecord& known = found->second;
  if (known.hash.size() != hash.size() ||
      CRYPTO_memcmp(known.hash.data(), hash.data(), hash.size()) != 0) {
    return BadToken();
  }
  if (known.expires && *known.expires <= clock_.Now()) return BadToken();
  return Principal{known.principal, RoleOf(known)};
}

absl::StatusOr<Principal> Authenticator::Authenticate(
    const grpc::ServerContextBase& context) const {
  const auto& metadata = context.client_metadata();
  const auto header = metadata.find("authorization");
  if (header == metadata.end()) {
    if (IsLocal(context)) return Principal{"local", Role::kAdmin};
    return MakeError(Reason::kUnauthenticated, "this address takes calls with a token only",
                     "set GQ_TOKEN_FILE to the file with your token, or use the local socket");
  }
  if (metadata.count("authorization") != 1) return BadToken();
  const std::string_view value(header->second.data(), header->second.size());
  if (value.substr(0, kScheme.size()) != kScheme) return BadToken();
  return CheckToken(value.substr(kScheme.size()));
}

absl::Status RequireRole(const Principal& principal, Role role) {
  if (principal.Is(role)) return absl::OkStatus();
  return MakeError(Reason::kPermissionDenied,
                   StrCat("this needs the role `", RoleName(role), "`, ", principal.name,
                          " has the role `", RoleName(principal.role), "`"),
                   "ask an administrator");
}

absl::Status EnsureAdminToken(const std::filesystem::path& data_folder, Ledger& ledger) {
  const std::filesystem::path path = data_folder / "admin.token";
  GQ_ASSIGN_OR_RETURN(const std::vector<TokenRecord> tokens, ledger.ListTokens());
  std::error_code error;
  for (const TokenRecord& token : tokens) {
    if (token.id == kAdminTokenId && std::filesystem::exists(path, error)) return absl::OkStatus();
  }
  const NewToken token = MakeToken("admin", Role::kAdmin, kAdminTokenId);
  GQ_RETURN_IF_ERROR(ledger.AddToken({"server", "EnsureAdminToken"}, token.record));
  std::filesystem::remove(path, error);
  base::FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.valid()) {
    return MakeError(Reason::kFileUnwritable,
                     StrCat("'", path.string(), "' cannot be written: ", std::strerror(errno)));
  }
  GQ_RETURN_IF_ERROR(base::WriteAll(file.get(), token.text + "\n", path.string()));
  fsync(file.get());
  return absl::OkStatus();
}

}  // namespace gq::server
