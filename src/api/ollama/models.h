// Routes of Ollama's API for stored models: list, show, copy, delete, create, upload, pull and
// push. Also routes that identify the server. REQUIRES: the store and the registry client outlive
// the handlers. Handlers are thread-safe.
#pragma once

#include <string>
#include <vector>

#include "api/call.h"
#include "prompt/capabilities.h"
#include "registry/client.h"
#include "store/store.h"

namespace billow::api::ollama {

// Returns GET and HEAD / and /api/version. Clients read `version` to see which features they may
// use. Also returns the routes for cloud accounts; this server refuses them. `web_page`: redirects
// browsers from / to the page at ui/; other clients are not redirected.
std::vector<Route> identity_routes(std::string version = "0.33.0", bool web_page = false);

// Returns /api/tags, /api/show, /api/copy and /api/delete. `go_templates` must equal the catalog's,
// so that /api/show reports the template that the model uses.
std::vector<Route> model_routes(store::Store& store, prompt::GoTemplateUse go_templates);
// Returns /api/blobs/:digest and /api/create. `program` is billow, which quantises and converts
// model files. If it is empty, quantisation is refused.
std::vector<Route> create_routes(store::Store& store, registry::Client& client,
                                 const std::string& program);
// Returns /api/pull and /api/push.
std::vector<Route> transfer_routes(registry::Client& client);

struct StoreRouteOptions {
  std::string version = "0.33.0";  // the version of Ollama that clients see
  prompt::GoTemplateUse go_templates = prompt::GoTemplateUse::kAuto;
  std::string program{};  // path of billow; empty: quantisation is refused
  bool web_page = false;  // for identity_routes()
};

// Returns all routes above. `client` pulls models into the store.
std::vector<Route> store_routes(store::Store& store, registry::Client& client,
                                const StoreRouteOptions& options = {});

}  // namespace billow::api::ollama
