// The routes of Ollama's API that deal with stored models: listed, shown, copied, deleted, created,
// uploaded, pulled and pushed; and what tells clients who they talk to. The handlers refer to the
// store and the client of registries, which outlive them; any thread may call them, many at once.
#pragma once

#include <string>
#include <vector>

#include "api/call.h"
#include "prompt/capabilities.h"
#include "registry/client.h"
#include "store/store.h"

namespace billow::api::ollama {

// GET and HEAD / and /api/version, whose answer `version` is: clients ask it for what they may use.
// Then what belongs to accounts in a cloud, which this server has none of.
// `web_page`: a browser that asks for / is sent on to the page at ui/; other clients are not.
std::vector<Route> identity_routes(std::string version = "0.33.0", bool web_page = false);

// /api/tags, /api/show, /api/copy, /api/delete. `go_templates` is that of the catalog, so that a
// model is shown with the template that it is used with.
std::vector<Route> model_routes(store::Store& store, prompt::GoTemplateUse go_templates);
// /api/blobs/:digest, /api/create.
// `program` is billow: it quantises files of models. Empty: quantisation is refused.
std::vector<Route> create_routes(store::Store& store, registry::Client& client,
                                 const std::string& program);
// /api/pull, /api/push.
std::vector<Route> transfer_routes(registry::Client& client);

struct StoreRouteOptions {
  std::string version = "0.33.0";  // of Ollama, for clients
  prompt::GoTemplateUse go_templates = prompt::GoTemplateUse::kAuto;
  std::string program{};  // billow; empty: there is no quantisation
  bool web_page = false;  // of identity_routes()
};

// All of the above. `client` pulls into the store.
std::vector<Route> store_routes(store::Store& store, registry::Client& client,
                                const StoreRouteOptions& options = {});

}  // namespace billow::api::ollama
