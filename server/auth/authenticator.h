// Who calls: from the metadata of each call alone, never from the state of its connection.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "grpcpp/server_context.h"
#include "server/ledger/ledger.h"

namespace gq::server {

// What a principal may do; each role up to `admin` includes those before it. `agent` is for workers
// and agents, `enrolment` for nothing but getting an agent's identity.
enum class Role { kViewer, kSubmitter, kOperator, kAdmin, kAgent, kEnrolment };

std::string_view RoleName(Role role);

struct Principal {
  std::string name;
  Role role = Role::kViewer;

  bool Is(Role needed) const { return role == needed || (role < Role::kAgent && role > needed); }
  // Sees and may change the jobs of others.
  bool IsOperator() const { return role == Role::kOperator || role == Role::kAdmin; }
};

// A bearer token: `gq_<id>_<secret>`, both in hexadecimal digits. Only its hash is stored.
struct NewToken {
  std::string text;
  TokenRecord record;
};
NewToken MakeToken(std::string_view principal, Role role, std::string_view id = "");

// The tokens of an agent: of its enrolment and its own. Ids and principals follow from its name, so
// that a new one takes the place of the one before.
std::string EnrolmentTokenId(std::string_view agent);
std::string AgentTokenId(std::string_view agent);
std::string AgentPrincipal(std::string_view agent);
// The name of the agent that a principal stands for; empty for other principals.
std::string_view AgentOfPrincipal(std::string_view principal);

// Thread-safe; calls do not block.
class Authenticator {
 public:
  // `clock` outlives it.
  explicit Authenticator(const base::Clock& clock) : clock_(clock) {}

  // Replaces the known tokens.
  void SetTokens(std::vector<TokenRecord> tokens);

  // The principal of a call: that of its bearer token; without one, on the local socket, the local
  // administrator. Fails with kUnauthenticated.
  absl::StatusOr<Principal> Authenticate(const grpc::ServerContextBase& context) const;

  // The principal of a token. Takes the same time whether the secret is nearly right or not.
  absl::StatusOr<Principal> CheckToken(std::string_view token) const;

 private:
  const base::Clock& clock_;
  mutable absl::Mutex mutex_;
  std::map<std::string, TokenRecord, std::less<>> tokens_ ABSL_GUARDED_BY(mutex_);
};

// kPermissionDenied unless the principal has the role.
absl::Status RequireRole(const Principal& principal, Role role);

// The administrator's token of a data folder: made, stored 0600 as `admin.token` and put into the
// ledger when the folder has none yet.
absl::Status EnsureAdminToken(const std::filesystem::path& data_folder, Ledger& ledger);

}  // namespace gq::server
