#include "server/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"

namespace billow::server {
namespace {

using keys::Refusal;
using keys::Role;

// The only list of roles. Sorted by role, then by pattern.
constexpr RouteAccess kAccesses[] = {
    {"/"},
    {"/health"},
    {"/healthz"},
    {"/readyz"},
    {"/ui"},
    {"/ui/"},
    {"/ui/:file"},
    {"/ui/assets/:file"},
    {"/api/chat", Role::kUse, true},
    {"/api/embed", Role::kUse, true},
    {"/api/embeddings", Role::kUse, true},
    {"/api/generate", Role::kUse, true},
    {"/api/plan", Role::kUse, true},
    {"/apply-template", Role::kUse, true},
    {"/chat/completions", Role::kUse, true},
    {"/completion", Role::kUse, true},
    {"/completions", Role::kUse, true},
    {"/decode", Role::kUse, true},
    {"/detokenize", Role::kUse, true},
    {"/embed", Role::kUse, true},
    {"/infill", Role::kUse, true},
    {"/rerank", Role::kUse, true},
    {"/slots/:id", Role::kUse, true},
    {"/tokenize", Role::kUse, true},
    {"/v1/chat/completions", Role::kUse, true},
    {"/v1/completions", Role::kUse, true},
    {"/v1/embeddings", Role::kUse, true},
    {"/v1/messages", Role::kUse, true},
    {"/v1/messages/count_tokens", Role::kUse, true},
    {"/v1/rerank", Role::kUse, true},
    {"/v1/responses", Role::kUse, true},
    {"/v1/responses/input_tokens", Role::kUse, true},
    {"/api/experimental/model-recommendations", Role::kUse},
    {"/api/experimental/web_fetch", Role::kUse},
    {"/api/experimental/web_search", Role::kUse},
    {"/api/me", Role::kUse},
    {"/api/server", Role::kUse},
    {"/api/show", Role::kUse},
    {"/api/signout", Role::kUse},
    {"/api/status", Role::kUse},
    {"/api/tags", Role::kUse},
    {"/api/user/keys/:key", Role::kUse},
    {"/api/version", Role::kUse},
    {"/models", Role::kUse},
    {"/props", Role::kUse},
    {"/tokenizer_info", Role::kUse},
    {"/v1/models", Role::kUse},
    {"/v1/models/:model", Role::kUse},
    {"/v1/responses/:id", Role::kUse},
    {"/v1/responses/:id/input_items", Role::kUse},
    {"/version", Role::kUse},
    {"/api/blobs/:digest", Role::kManage},
    {"/api/copy", Role::kManage},
    {"/api/create", Role::kManage},
    {"/api/delete", Role::kManage},
    {"/api/pull", Role::kManage},
    {"/api/push", Role::kManage},
    {"/api/events", Role::kObserve},
    {"/api/history", Role::kObserve},
    {"/api/memory", Role::kObserve},
    {"/api/ps", Role::kObserve},
    {"/api/trace", Role::kObserve},
    {"/api/trace/:id", Role::kObserve},
    {"/metrics", Role::kObserve},
    {"/metrics/load", Role::kObserve},
    {"/slots", Role::kObserve},
};

http::Verdict refused(int status, std::string text, std::string user = {}) {
  http::Verdict verdict;
  verdict.refusal = std::move(text);
  verdict.status = status;
  verdict.user = std::move(user);
  if (status == 401) verdict.headers.add("WWW-Authenticate", std::string(kChallenge));
  return verdict;
}

metrics::Load::KeyLoad load_of(const keys::AccountCounts& account) {
  metrics::Load::KeyLoad load{.name = account.name,
                              .n_running = account.n_running,
                              .n_requests = account.n_requests,
                              .n_evaluated = account.n_evaluated,
                              .n_generated = account.n_generated};
  for (const Refusal refusal : {Refusal::kRole, Refusal::kMaxRequests, Refusal::kTokens})
    load.n_refused.emplace_back(keys::refusal_name(refusal),
                                account.n_refused[static_cast<size_t>(refusal)]);
  return load;
}

}  // namespace

std::span<const RouteAccess> route_accesses() { return kAccesses; }

RouteAccess access_of(std::string_view pattern) {
  const auto* found = std::ranges::find(kAccesses, pattern, &RouteAccess::pattern);
  if (found != std::end(kAccesses)) return *found;
  return {.pattern = pattern, .role = Role::kManage};
}

std::string_view key_of(const http::Headers& headers) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view given = trimmed(headers.get("Authorization"));
  if (given.size() > kScheme.size() &&
      equal_ignoring_case(given.substr(0, kScheme.size()), kScheme))
    return trimmed(given.substr(kScheme.size()));
  return trimmed(headers.get("x-api-key"));
}

http::Verdict check_key(keys::KeyRing& ring, const http::Request& request,
                        std::string_view pattern) {
  const RouteAccess access = pattern.empty() ? RouteAccess{} : access_of(pattern);
  if (!access.role) return {};
  const std::string_view key = key_of(request.headers);
  if (key.empty()) {
    ring.count_refusal(Refusal::kNoKey);
    return refused(401,
                   "this server needs an API key: send it as \"Authorization: Bearer KEY\" or "
                   "\"x-api-key: KEY\"; the commands of Billow take it from BILLOW_API_KEY");
  }
  const std::shared_ptr<keys::Account> account = ring.find(key);
  if (account == nullptr) {
    ring.count_refusal(Refusal::kUnknownKey);
    return refused(401, "this server does not know the API key, or it was revoked");
  }
  if (!account->roles().has(*access.role)) {
    account->count_refusal(Refusal::kRole);
    return refused(403,
                   fmt::format("the API key '{}' lacks the role '{}', which {} needs",
                               account->name(), keys::role_name(*access.role), pattern),
                   account->name());
  }
  http::Verdict verdict;
  verdict.user = account->name();
  return verdict;
}

void report_keys(const keys::KeyRing& ring, metrics::Load& load) {
  const keys::KeyRing::Counts counts = ring.counts();
  metrics::Load::KeyLoad& unknown = load.keys.emplace_back();
  for (const Refusal refusal : {Refusal::kNoKey, Refusal::kUnknownKey})
    unknown.n_refused.emplace_back(keys::refusal_name(refusal),
                                   counts.n_refused[static_cast<size_t>(refusal)]);
  for (const keys::AccountCounts& account : counts.accounts) load.keys.push_back(load_of(account));
  load.n_key_file_failures = counts.n_read_failures;
}

}  // namespace billow::server
