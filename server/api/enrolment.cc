// The calls of gq.v1.AdminService about agents and their identities.
#include <algorithm>
#include <cctype>
#include <map>

#include "common/base/status.h"
#include "common/base/text.h"
#include "server/api/admin_service.h"

namespace gq::server {
namespace {

using base::MakeError;
using base::Reason;
using base::StrCat;

constexpr size_t kMaxName = 100;
constexpr absl::Duration kValidFor = absl::Hours(24);
constexpr absl::Duration kMaxValidFor = absl::Hours(24 * 30);
constexpr absl::Duration kOnlineWithin = absl::Seconds(90);

absl::Status CheckName(std::string_view name) {
  const bool clean = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '-' || c == '_';
  });
  if (clean && !name.empty() && name.size() <= kMaxName) return absl::OkStatus();
  return MakeError(Reason::kInvalidFlag, StrCat("`agent`: '", name, "' is no name of an agent"),
                   "use 1 to 100 letters, digits, `.`, `-` and `_`");
}

absl::Status ReloadTokens(const Backend& backend) {
  GQ_ASSIGN_OR_RETURN(auto tokens, backend.ledger.ListTokens());
  backend.authenticator.SetTokens(std::move(tokens));
  return absl::OkStatus();
}

// Stores a token, and the authenticator knows it at once.
absl::Status AddToken(const Backend& backend, const Caller& caller, const TokenRecord& token) {
  GQ_RETURN_IF_ERROR(backend.ledger.AddToken(caller.AsActor(), token));
  return ReloadTokens(backend);
}

// A token in its place that nobody has and that is over.
TokenRecord VoidToken(const Backend& backend, std::string_view agent, const std::string& id) {
  TokenRecord record = MakeToken(AgentPrincipal(agent), Role::kEnrolment, id).record;
  record.expires = backend.clock.Now();
  return record;
}

std::string IdentityOf(const std::vector<TokenRecord>& tokens, std::string_view agent,
                       absl::Time now) {
  std::string identity = "none";
  for (const TokenRecord& token : tokens) {
    const bool over = token.expires && *token.expires <= now;
    if (token.id == AgentTokenId(agent)) return over ? "revoked" : "enrolled";
    if (token.id == EnrolmentTokenId(agent) && !over) identity = "enrolment";
  }
  return identity;
}

bool IsOpen(const std::vector<TokenRecord>& tokens, std::string_view agent, absl::Time now) {
  return std::any_of(tokens.begin(), tokens.end(), [&](const TokenRecord& token) {
    return token.id == EnrolmentTokenId(agent) && (!token.expires || *token.expires > now);
  });
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::CreateEnrolment(
    grpc::CallbackServerContext* context, const gq::v1::CreateEnrolmentRequest* request,
    gq::v1::CreateEnrolmentResponse* response) {
  return RunCall(backend_, context, "AdminService.CreateEnrolment",
                 [=, this](const Caller& caller) -> absl::Status {
                   GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kAdmin));
                   GQ_RETURN_IF_ERROR(CheckName(request->agent()));
                   absl::Duration valid_for = kValidFor;
                   if (request->has_valid_for())
                     valid_for = absl::Seconds(request->valid_for().seconds());
                   if (valid_for <= absl::ZeroDuration() || valid_for > kMaxValidFor) {
                     return MakeError(Reason::kInvalidFlag,
                                      "`valid_for` must be between 1 s and 30 days");
                   }
                   NewToken token = MakeToken(AgentPrincipal(request->agent()), Role::kEnrolment,
                                              EnrolmentTokenId(request->agent()));
                   token.record.expires = backend_.clock.Now() + valid_for;
                   GQ_RETURN_IF_ERROR(AddToken(backend_, caller, token.record));
                   response->set_token(token.text);
                   SetTime(*token.record.expires, response->mutable_expire_time());
                   return absl::OkStatus();
                 });
}

grpc::ServerUnaryReactor* AdminService::ClaimEnrolment(grpc::CallbackServerContext* context,
                                                       const gq::v1::ClaimEnrolmentRequest*,
                                                       gq::v1::ClaimEnrolmentResponse* response) {
  return RunCall(
      backend_, context, "AdminService.ClaimEnrolment",
      [=, this](const Caller& caller) -> absl::Status {
        GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kEnrolment));
        const std::string agent(AgentOfPrincipal(caller.principal.name));
        absl::MutexLock lock(&claim_mutex_);
        GQ_ASSIGN_OR_RETURN(const auto tokens, backend_.ledger.ListTokens());
        if (!IsOpen(tokens, agent, backend_.clock.Now())) {
          return MakeError(Reason::kUnauthenticated, "the enrolment token was used already",
                           "make a new one with `gq agents enroll`");
        }
        GQ_RETURN_IF_ERROR(
            AddToken(backend_, caller, VoidToken(backend_, agent, EnrolmentTokenId(agent))));
        const NewToken token = MakeToken(AgentPrincipal(agent), Role::kAgent, AgentTokenId(agent));
        GQ_RETURN_IF_ERROR(AddToken(backend_, caller, token.record));
        response->set_agent(agent);
        response->set_token(token.text);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdminService::ListAgents(grpc::CallbackServerContext* context,
                                                   const gq::v1::ListAgentsRequest*,
                                                   gq::v1::ListAgentsResponse* response) {
  return RunCall(backend_, context, "AdminService.ListAgents",
                 [=, this](const Caller& caller) -> absl::Status {
                   GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kAdmin));
                   GQ_ASSIGN_OR_RETURN(const auto agents, backend_.ledger.ListAgents());
                   GQ_ASSIGN_OR_RETURN(const auto tokens, backend_.ledger.ListTokens());
                   GQ_ASSIGN_OR_RETURN(const auto boards, backend_.scheduler.Boards());
                   const absl::Time now = backend_.clock.Now();
                   std::map<std::string, gq::v1::Agent> all;
                   for (const Agent& known : agents) {
                     gq::v1::Agent& agent = all[known.id];
                     agent.set_host(known.host);
                     agent.set_version(known.version);
                     for (const std::string& capability : known.capabilities) {
                       agent.add_capabilities(capability);
                     }
                     agent.set_online(known.connected && known.last_seen + kOnlineWithin >= now);
                     agent.set_local(known.local);
                     if (known.last_seen > absl::UnixEpoch()) {
                       SetTime(known.last_seen, agent.mutable_last_seen());
                     }
                   }
                   for (const TokenRecord& token : tokens) {
                     if (const auto name = AgentOfPrincipal(token.principal); !name.empty()) {
                       all[std::string(name)];
                     }
                   }
                   for (const BoardRecord& board : boards) {
                     if (const auto found = all.find(board.board.agent()); found != all.end()) {
                       found->second.add_boards(board.board.name());
                     }
                   }
                   for (auto& [name, agent] : all) {
                     agent.set_name(name);
                     agent.set_identity(IdentityOf(tokens, name, now));
                     *response->add_agents() = std::move(agent);
                   }
                   return absl::OkStatus();
                 });
}

grpc::ServerUnaryReactor* AdminService::RevokeAgent(grpc::CallbackServerContext* context,
                                                    const gq::v1::RevokeAgentRequest* request,
                                                    gq::v1::RevokeAgentResponse*) {
  return RunCall(
      backend_, context, "AdminService.RevokeAgent",
      [=, this](const Caller& caller) -> absl::Status {
        GQ_RETURN_IF_ERROR(RequireRole(caller.principal, Role::kAdmin));
        const std::string& agent = request->agent();
        GQ_ASSIGN_OR_RETURN(const auto tokens, backend_.ledger.ListTokens());
        const std::string identity = IdentityOf(tokens, agent, backend_.clock.Now());
        if (identity != "enrolled" && identity != "enrolment") {
          return MakeError(Reason::kNotFound,
                           StrCat("agent '", agent, "' has no identity that could be revoked"),
                           "`gq agents list` shows the agents");
        }
        for (const std::string& id : {EnrolmentTokenId(agent), AgentTokenId(agent)}) {
          GQ_RETURN_IF_ERROR(AddToken(backend_, caller, VoidToken(backend_, agent, id)));
        }
        return backend_.scheduler.AgentExited(agent, "its identity was revoked", /*counts=*/true);
      });
}

}  // namespace gq::server
