#include "api/llama/routes.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "api/choices.h"
#include "api/fields.h"
#include "api/llama/completion_codec.h"
#include "api/llama/slots.h"
#include "api/model_name.h"
#include "api/openai/chat_codec.h"
#include "api/rendered_prompt.h"
#include "api/stored_models.h"
#include "base/json.h"
#include "base/utf8.h"
#include "http/status.h"
#include "store/name.h"

namespace billow::api::llama {
namespace {

using http::StatusError;
using tokenizer::Tokenizer;

class Handlers {
 public:
  explicit Handlers(const Sources& sources) : sources_(sources), models_(sources.store) {}

  void complete(Call& call, CompletionRequest request);
  void apply_template(Call& call);
  void show_properties(Call& call);
  void show_tokenizer(Call& call);
  void show_version(Call& call) { respond(call, {{"version", sources_.version}}); }

 private:
  static void respond(Call& call, const Json& object) {
    call.respond({.content_type = "application/json", .body = to_text(object) + "\n"});
  }

  // Clients of llama-server name no model, because llama-server has only one.
  std::string name_of(const Call& call, std::string in_body) {
    return model_name_of(call, std::move(in_body), models_);
  }
  std::shared_ptr<const ServedModel> model_of(Call& call, const std::string& name) {
    return llama::model_of(sources_.catalog, call, name);
  }
  size_t context_of(const ServedModel& model) const {
    return sources_.max_context == 0 ? model.max_context()
                                     : std::min(sources_.max_context, model.max_context());
  }

  const Sources sources_;
  StoredModels models_;
};

// Returns the text of a token, for display.
std::string text_of(const Tokenizer& tokenizer, tokenizer::TokenId id) {
  return tokenizer.has(id) ? utf8::sanitized(tokenizer.text(id)) : std::string();
}

// Returns the model's template, in Go's form or Jinja; empty if it has none.
const std::string& template_of(const ServedModel& model) {
  static const std::string none;
  using Source = store::PromptTraits::Source;
  if (model.template_source == Source::kModel) return model.stored.template_text;
  const auto& facts = model.stored.weights_facts;
  return facts ? facts->chat_template : none;
}

void Handlers::complete(Call& call, CompletionRequest request) {
  report_unknown_fields(call, request.unknown_fields);
  GenerationRequest& base = request.generation;
  base.model = name_of(call, base.model);
  base.live_events = request.stream && call.request().headers.get("X-Billow-Events") == "1";
  base.is_bulk = is_bulk(call.request());
  const auto model = model_of(call, base.model);
  const Tokenizer& tokenizer = model->weights->tokenizer;
  std::vector<GenerationRequest> generations;
  std::vector<std::string> texts;
  const auto add = [&](std::vector<int32_t> tokens) {
    for (const int32_t id : tokens)
      if (!tokenizer.has(id))
        throw StatusError(400, "field \"prompt\" has the id " + std::to_string(id) +
                                   ", which is not a token of the model");
    texts.push_back(utf8::sanitized(tokenizer.decode(tokens, {.render_special = true})));
    generations.emplace_back(base).prompt_tokens = std::move(tokens);
  };
  if (request.gap) add(tokens_of(tokenizer, *request.gap));
  for (const PromptPieces& pieces : request.prompts) add(tokens_of(tokenizer, pieces));
  if (request.media) {
    GenerationRequest& generation = generations.emplace_back(base);
    generation.prompt = request.media->text;
    generation.images = request.media->images;
    generation.image_marker = kMediaMarker;
    texts.push_back(request.media->text);
  }
  const auto answer = completion_answer(call, request, std::move(texts));
  run_for(*answer, [&] {
    run_choices(sources_.generator, generations, request.n, *answer, call.stop(), call.trace());
  });
}

void Handlers::apply_template(Call& call) {
  const Fields fields = Fields::parse(call.take_body().text, "ApplyTemplateRequest");
  Json body = fields.all();
  body["model"] = name_of(call, fields.text("model"));
  openai::TextRequest request = openai::decode_chat(body.dump());
  report_unknown_fields(call, request.unknown_fields);
  GenerationRequest& generation = request.generations.front();
  generation.render_only = true;
  generation.counts_only = true;
  RenderedPrompt prompt(call);
  sources_.generator.run(generation, prompt, call.stop(), call.trace());
  respond(call, {{"prompt", prompt.text()}});
}

void Handlers::show_properties(Call& call) {
  const auto model = model_of(call, name_of(call, ""));
  const Tokenizer& tokenizer = model->weights->tokenizer;
  Json settings = scheduler::to_json(model->options.sampling);
  settings["n_predict"] = model->options.num_predict.value_or(-1);
  settings["stop"] = model->options.stop.value_or(std::vector<std::string>());
  Json props;
  props["default_generation_settings"] = {{"n_ctx", context_of(*model)},
                                          {"params", std::move(settings)}};
  props["total_slots"] = sources_.slots.size();
  props["model_alias"] = model->name;
  props["model_path"] = model->stored.weights;
  const bool sees = model->weights->pictures.has_value();
  props["modalities"] = {{"vision", sees}, {"audio", false}};
  if (sees) props["media_marker"] = kMediaMarker;
  props["chat_template"] = utf8::sanitized(template_of(*model));
  props["bos_token"] = text_of(tokenizer, tokenizer.bos());
  props["eos_token"] = text_of(tokenizer, tokenizer.eos());
  props["build_info"] = "billow " + sources_.version;
  respond(call, props);
}

void Handlers::show_tokenizer(Call& call) {
  const auto model = model_of(call, name_of(call, ""));
  const Tokenizer& tokenizer = model->weights->tokenizer;
  const auto token = [&](tokenizer::TokenId id) {
    return tokenizer.has(id) ? Json(text_of(tokenizer, id)) : Json(nullptr);
  };
  respond(call, {{"tokenizer_class", tokenizer.model()},
                 {"pre_tokenizer", tokenizer.pre_tokenizer()},
                 {"vocab_size", tokenizer.n_tokens()},
                 {"model_max_length", context_of(*model)},
                 {"add_bos_token", tokenizer.add_bos()},
                 {"add_eos_token", tokenizer.add_eos()},
                 {"bos_token", token(tokenizer.bos())},
                 {"eos_token", token(tokenizer.eos())},
                 {"unk_token", token(tokenizer.roles().unknown)},
                 {"pad_token", token(tokenizer.roles().padding)},
                 {"chat_template", utf8::sanitized(template_of(*model))}});
}

}  // namespace

std::shared_ptr<const ServedModel> model_of(Catalog& catalog, Call& call, const std::string& name) {
  auto model = catalog.find(name, call.stop());
  if (!model) throw StatusError(404, "model '" + name + "' not found");
  call.set_model(model->name);
  return model;
}

std::vector<Route> routes(const Sources& sources) {
  const auto handlers = std::make_shared<Handlers>(sources);
  std::vector<Route> routes;
  const auto add = [&](http::Method method, const char* pattern, CallHandler handler,
                       bool is_traced = false) {
    Route& route = routes.emplace_back();
    route.methods = {method};
    route.pattern = pattern;
    route.handler = std::move(handler);
    route.is_traced = is_traced;
  };
  using enum http::Method;
  for (const char* pattern : {"/completion", "/completions"}) {
    add(
        kPost, pattern,
        [handlers](Call& call) {
          handlers->complete(call, decode_completion(call.take_body().text));
        },
        true);
  }
  add(
      kPost, "/infill",
      [handlers](Call& call) { handlers->complete(call, decode_infill(call.take_body().text)); },
      true);
  add(kPost, "/apply-template", [handlers](Call& call) { handlers->apply_template(call); });
  add(kGet, "/props", [handlers](Call& call) { handlers->show_properties(call); });
  add(kGet, "/tokenizer_info", [handlers](Call& call) { handlers->show_tokenizer(call); });
  add(kGet, "/version", [handlers](Call& call) { handlers->show_version(call); });
  std::ranges::move(slot_routes(sources), std::back_inserter(routes));
  return routes;
}

std::vector<Route> aliases(const std::vector<Route>& routes) {
  constexpr std::array<std::string_view, 2> kPatterns = {"/v1/chat/completions", "/v1/models"};
  constexpr size_t kVersion = std::string_view("/v1").size();
  std::vector<Route> made;
  for (const Route& route : routes) {
    if (std::ranges::find(kPatterns, route.pattern) == kPatterns.end()) continue;
    made.push_back(route);
    made.back().pattern.erase(0, kVersion);
  }
  return made;
}

}  // namespace billow::api::llama
