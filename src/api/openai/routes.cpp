#include "api/openai/routes.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/anthropic/models.h"
#include "api/choices.h"
#include "api/embed_fields.h"
#include "api/fields.h"
#include "api/openai/chat_codec.h"
#include "api/openai/completions_codec.h"
#include "api/openai/embeddings_codec.h"
#include "api/openai/responses_routes.h"
#include "api/random_id.h"
#include "api/stored_models.h"
#include "base/json.h"
#include "http/status.h"
#include "store/name.h"

namespace billow::api::openai {
namespace {

using MakeAnswer = std::unique_ptr<TextAnswer> (*)(Call& call, AnswerHead head,
                                                   const TextRequest& request, SteadyNow now);

AnswerHead new_head(std::string_view prefix, const std::string& model) {
  return {.id = random_id(prefix, 24),
          .created = static_cast<int64_t>(std::time(nullptr)),
          .model = model};
}

void generate(Call& call, Generator& generator, TextRequest request, std::string_view id_prefix,
              MakeAnswer make_answer) {
  report_unknown_fields(call, request.unknown_fields);
  for (GenerationRequest& generation : request.generations) {
    generation.live_events = request.stream && call.request().headers.get("X-Billow-Events") == "1";
    generation.is_bulk = is_bulk(call.request());
  }
  const std::unique_ptr<TextAnswer> answer = make_answer(
      call, new_head(id_prefix, request.generations.front().model), request, metrics::Clock::now);
  run_for(*answer, [&] {
    run_choices(generator, request.generations, request.best_of, *answer, call.stop(),
                call.trace());
  });
}

void embed(Call& call, Embedder& embedder) {
  EmbeddingsRequest request = decode_embeddings(call.take_body().text);
  read_embed_headers(call.request(), request.embed);
  const EmbedReply reply = embedder.embed(request.embed, call.stop(), call.trace());
  const std::string& model = request.embed.model;
  call.set_model(reply.model);
  add_sizing_headers(call, reply);
  call.respond(
      {.content_type = "application/json", .body = embeddings_json(reply, model, request.base64)});
}

Json model_json(const store::StoredModel& model, const std::string& id) {
  const auto created = std::chrono::floor<std::chrono::seconds>(model.modified);
  Json object;
  object["id"] = id;
  object["object"] = "model";
  object["created"] = created.time_since_epoch().count();
  object["owned_by"] = model.name.space;
  return object;
}

void respond(Call& call, const Json& object) {
  call.respond({.content_type = "application/json", .body = to_text(object) + "\n"});
}

void list_models(Call& call, StoredModels& models) {
  if (anthropic::is_client(call.request())) return anthropic::list_models(call, models);
  Json object;
  object["object"] = "list";
  object["data"] = Json::array();
  for (const store::StoredModel& model : models.list()) {
    object["data"].push_back(model_json(model, store::display_name(model.name)));
  }
  respond(call, object);
}

void show_model(Call& call, StoredModels& models) {
  const std::string& id = call.request().parameters.at("model");
  const auto name = store::parse_name(store::split_source(id).name);
  if (!name) throw http::StatusError(400, "invalid model name");
  const auto model = models.one<std::optional<store::StoredModel>>(
      "model '" + store::display_name(*name) + "'", call.stop(),
      [&store = models.store(), name = *name] { return store.find(name); });
  if (!model) {
    throw http::StatusError(404, "model '" + store::display_name(*name) + "' not found");
  }
  if (anthropic::is_client(call.request())) return anthropic::show_model(call, *model, id);
  respond(call, model_json(*model, id));
}

}  // namespace

std::vector<Route> routes(Generator& generator, Embedder& embedder, const store::Store& store) {
  using enum http::Method;
  const auto models = std::make_shared<StoredModels>(store);
  std::vector<Route> routes = {
      {.methods = {kPost},
       .pattern = "/v1/chat/completions",
       .handler =
           [&generator](Call& call) {
             TextRequest request = decode_chat(call.take_body().text);
             generate(call, generator, std::move(request), "chatcmpl-", chat_answer);
           },
       .is_traced = true},
      {.methods = {kPost},
       .pattern = "/v1/completions",
       .handler =
           [&generator](Call& call) {
             TextRequest request = decode_completion(call.take_body().text);
             generate(call, generator, std::move(request), "cmpl-", completion_answer);
           },
       .is_traced = true},
      {.methods = {kPost},
       .pattern = "/v1/embeddings",
       .handler = [&embedder](Call& call) { embed(call, embedder); },
       .is_traced = true},
      {.methods = {kGet},
       .pattern = "/v1/models",
       .handler = [models](Call& call) { list_models(call, *models); }},
      {.methods = {kGet},
       .pattern = "/v1/models/:model",
       .handler = [models](Call& call) { show_model(call, *models); }},
  };
  std::ranges::move(response_routes(generator, std::make_shared<ResponseStores>()),
                    std::back_inserter(routes));
  return routes;
}

}  // namespace billow::api::openai
