#include "api/ollama/models.h"

#include <memory>
#include <optional>
#include <utility>

#include "api/fields.h"
#include "api/model_traits.h"
#include "api/ollama/errors.h"
#include "api/ollama/requested_name.h"
#include "api/ollama/tags.h"
#include "api/stored_models.h"
#include "base/go_text.h"
#include "base/json.h"
#include "http/status.h"
#include "store/model.h"
#include "store/show.h"

namespace billow::api::ollama {
namespace {

using http::Method;

constexpr std::string_view kNoRemoteDetails =
    "ollama cloud is disabled: remote model details are unavailable";

// GitHub Copilot labels models by a metadata field, so this field gets the requested name.
void rename_for_copilot(const Call& call, const std::string& name, Json& reply) {
  if (!call.request().headers.get("User-Agent").starts_with("GitHubCopilotChat/")) return;
  reply["model_info"]["general.basename"] = name;
}

void show(StoredModels& models, prompt::GoTemplateUse go_templates, Call& call) {
  const Fields fields = Fields::parse(call.take_body().text, "ShowRequest");
  const std::string text = requested_model(fields);
  const Json* options = fields.object("options");
  const store::ShowOptions wanted{.verbose = fields.flag("verbose").value_or(false),
                                  .system = fields.text("system"),
                                  .options_json = options ? to_text(*options) : ""};
  fields.text("template");
  const store::Name name = parse_local(text, "invalid model name");
  const bool is_cloud = store::split_source(text).source == store::Source::kCloud;
  if (is_cloud) throw http::StatusError(403, std::string(kNoRemoteDetails));
  const std::string shown = "model '" + store::display_name(name) + "'";
  const auto load = [&] {
    return models.one<store::Model>(shown, call.stop(), [&store = models.store(), name, shown] {
      return load_stored(store, name, shown + " not found");
    });
  };
  store::Model model = load();
  call.set_model(store::display_name(model.stored.name));
  if (!model.config.remote_host.empty()) {
    throw http::StatusError(403, std::string(kNoRemoteDetails));
  }
  const auto describe = [&] {
    // Identical requests share one lookup.
    const std::string key = "the metadata of " + shown + "\n" + model.stored.digest.hex() +
                            (wanted.verbose ? "+" : "-") + wanted.options_json + "\n" +
                            wanted.system;
    return models.one<Json>(key, call.stop(), [model, wanted, go_templates] {
      return store::show_json(model, traits_of(model, go_templates), wanted);
    });
  };
  Json reply = describe();
  if (model.weights_facts && reply["model_info"].empty()) {
    // A new version of the model has replaced it, and its file was removed.
    model = load();
    reply = describe();
  }
  rename_for_copilot(call, text, reply);
  respond_json(call, reply);
}

void copy(store::Store& store, Call& call) {
  const Fields fields = Fields::parse(call.take_body().text, "CopyRequest");
  const auto invalid = [&](const char* field) {
    return std::string(field) + " " + go_quoted(fields.text(field)) + " is invalid";
  };
  const std::string text = fields.text("source");
  if (text.empty()) throw http::StatusError(400, invalid("source"));
  const store::Name source = parse_local(text, invalid("source"));
  const store::Name destination = parse_new(fields.text("destination"), invalid("destination"));
  if (!store.copy(source, destination)) {
    throw http::StatusError(404, "model " + go_quoted(text) + " not found");
  }
  call.set_model(store::display_name(store.resolve(source)));
  call.respond({});
}

void remove(store::Store& store, Call& call) {
  const Fields fields = Fields::parse(call.take_body().text, "DeleteRequest");
  const std::string text = requested_model(fields);
  const store::Name named = parse_local(text, "name " + go_quoted(text) + " is invalid");
  // Another program may have stored a model with the tag "local".
  const store::Name literal = store::parse_name(text).value_or(named);
  for (const store::Name& name : {literal, named}) {
    const std::string spelled = store::display_name(store.resolve(name));
    if (!store.remove(name)) continue;
    call.set_model(spelled);
    call.respond({});
    return;
  }
  throw http::StatusError(404, "model '" + text + "' not found");
}

}  // namespace

std::vector<Route> model_routes(store::Store& store, prompt::GoTemplateUse go_templates) {
  const auto models = std::make_shared<StoredModels>(store);
  const auto tags = std::make_shared<Tags>(models, go_templates);
  return {
      {.methods = {Method::kGet, Method::kHead},
       .pattern = "/api/tags",
       .handler = [tags](Call& call) { respond_json(call, tags->json()); }},
      {.methods = {Method::kPost},
       .pattern = "/api/show",
       .handler = [models, go_templates](Call& call) { show(*models, go_templates, call); }},
      {.methods = {Method::kPost},
       .pattern = "/api/copy",
       .handler = [&store](Call& call) { copy(store, call); },
       .writes_store = true},
      {.methods = {Method::kDelete},
       .pattern = "/api/delete",
       .handler = [&store](Call& call) { remove(store, call); },
       .writes_store = true},
  };
}

}  // namespace billow::api::ollama
