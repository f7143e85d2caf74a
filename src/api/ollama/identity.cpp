#include "api/ollama/errors.h"
#include "api/ollama/models.h"
#include "base/json.h"
#include "http/status.h"

namespace billow::api::ollama {
namespace {

using http::Method;

CallHandler refusing(int status, std::string text) {
  return [status, text = std::move(text)](Call&) { throw http::StatusError(status, text); };
}

}  // namespace

std::vector<Route> identity_routes(std::string version, bool web_page) {
  const auto root = [web_page](Call& call) {
    if (web_page) call.add_header("Vary", "Accept");
    if (!web_page || !http::accepts(call.request().headers, "Accept", "text/html")) {
      call.respond(http::text_response(200, "Ollama is running"));
      return;
    }
    // A relative address also works if a proxy adds a prefix.
    call.add_header("Location", "ui/");
    call.respond({.status = 302});
  };
  const auto answer_version = [version = std::move(version)](Call& call) {
    respond_json(call, {{"version", version}});
  };
  const auto status = [](Call& call) {
    respond_json(call, {{"cloud", {{"disabled", true}, {"source", "env"}}}});
  };
  const auto recommendations = [](Call& call) {
    respond_json(call, {{"recommendations", Json::array()}});
  };
  const auto no_cloud = [](const std::string& what) {
    return refusing(403, "ollama cloud is disabled: " + what + " is unavailable");
  };
  const auto signed_out = refusing(401, "you are not currently signed in");
  const std::vector<Method> reading{Method::kGet, Method::kHead};
  const std::vector<Method> posting{Method::kPost};
  return {
      {.methods = reading, .pattern = "/", .handler = root},
      {.methods = reading, .pattern = "/api/version", .handler = answer_version},
      {.methods = {Method::kGet}, .pattern = "/api/status", .handler = status},
      {.methods = posting, .pattern = "/api/me", .handler = refusing(401, "unauthorized")},
      {.methods = posting, .pattern = "/api/signout", .handler = signed_out},
      {.methods = {Method::kDelete}, .pattern = "/api/user/keys/:key", .handler = signed_out},
      {.methods = posting,
       .pattern = "/api/experimental/web_search",
       .handler = no_cloud("web search")},
      {.methods = posting,
       .pattern = "/api/experimental/web_fetch",
       .handler = no_cloud("web fetch")},
      {.methods = {Method::kGet},
       .pattern = "/api/experimental/model-recommendations",
       .handler = recommendations},
  };
}

std::vector<Route> store_routes(store::Store& store, registry::Client& client,
                                const StoreRouteOptions& options) {
  std::vector<Route> all = identity_routes(options.version, options.web_page);
  for (const std::vector<Route>& some :
       {model_routes(store, options.go_templates), create_routes(store, client, options.program),
        transfer_routes(client)}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace billow::api::ollama
