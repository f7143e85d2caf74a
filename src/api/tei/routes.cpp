#include "api/tei/routes.h"

#include <memory>
#include <utility>

#include "api/embed_fields.h"
#include "api/model_name.h"
#include "api/openai/chat_codec.h"
#include "api/rendered_prompt.h"
#include "api/request_options.h"
#include "api/tei/rerank_codec.h"
#include "api/tei/tokens_codec.h"
#include "api/vector_text.h"
#include "base/json.h"
#include "http/status.h"

namespace billow::api::tei {
namespace {

using http::StatusError;

void respond(Call& call, std::string body) {
  call.respond({.content_type = "application/json", .body = std::move(body)});
}

EmbedReply run(Call& call, Embedder& embedder, StoredModels& models, EmbedRequest& request) {
  request.model = model_name_of(call, std::move(request.model), models);
  read_embed_headers(call.request(), request);
  EmbedReply reply = embedder.embed(request, call.stop(), call.trace());
  call.set_model(reply.model);
  add_sizing_headers(call, reply);
  return reply;
}

void embed(Call& call, Embedder& embedder, StoredModels& models) {
  EmbedRequest request = decode_embed(Fields::parse(call.take_body().text, "EmbedRequest"));
  const EmbedReply reply = run(call, embedder, models, request);
  std::string body = "[";
  for (size_t i = 0; i < reply.results.size(); ++i) {
    if (i > 0) body += ',';
    const EmbedResult& result = reply.results[i];
    result.error.empty() ? append_vectors(body, result) : append_failure(body, i, result);
  }
  respond(call, body + ']');
}

void rerank(Call& call, Embedder& embedder, StoredModels& models) {
  RerankRequest request = decode_rerank(call.take_body().text);
  const EmbedReply reply = run(call, embedder, models, request.embed);
  respond(call, rerank_json(request, reply));
}

std::shared_ptr<const ServedModel> found(Call& call, Catalog& catalog, StoredModels& models,
                                         const Fields& fields) {
  const std::string name = model_name_of(call, fields.text("model"), models);
  auto model = catalog.find(name, call.stop());
  if (!model) throw StatusError(404, "model '" + name + "' not found");
  call.set_model(model->name);
  return model;
}

// Answers vLLM's form with messages: the tokens of the rendered conversation.
std::string chat_tokens(Call& call, Generator& generator, const ServedModel& model,
                        const Fields& fields) {
  Json body = fields.all();
  body["model"] = model.name;
  for (const char* field : {"add_special_tokens", "return_token_strs"}) body.erase(field);
  openai::TextRequest request = openai::decode_chat(body.dump());
  report_unknown_fields(call, request.unknown_fields);
  request.generations.front().render_only = true;
  request.generations.front().counts_only = true;
  RenderedPrompt prompt(call);
  generator.run(request.generations.front(), prompt, call.stop(), call.trace());
  return prompt_tokens_json(model.weights->tokenizer, fields, prompt.text(), false,
                            model.max_context());
}

void tokenize(Call& call, Catalog& catalog, StoredModels& models, Generator& generator) {
  const Fields fields = Fields::parse(call.take_body().text, "TokenizeRequest");
  const auto model = found(call, catalog, models, fields);
  const tokenizer::Tokenizer& tokenizer = model->weights->tokenizer;
  if (fields.has("messages")) return respond(call, chat_tokens(call, generator, *model, fields));
  if (fields.has("prompt"))
    return respond(call, prompt_tokens_json(tokenizer, fields, fields.text("prompt"), true,
                                            model->max_context()));
  respond(call, tokenize_json(tokenizer, fields));
}

void detokenize(Call& call, Catalog& catalog, StoredModels& models) {
  const Fields fields = Fields::parse(call.take_body().text, "TokenizeRequest");
  respond(call, detokenize_json(found(call, catalog, models, fields)->weights->tokenizer, fields));
}

}  // namespace

EmbedRequest decode_embed(const Fields& fields) {
  EmbedRequest request;
  request.model = fields.text("model");
  read_embed_fields(fields, request);
  request.dimensions_must_fit = true;
  if (fields.has("dimensions") && request.dimensions == 0)
    throw StatusError(400, "dimensions must be above 0");
  if (fields.has("prompt_name"))
    throw StatusError(400, "prompt_name is not supported; put the prompt before the text");
  const Json* inputs = fields.value("inputs");
  if (inputs == nullptr || (inputs->is_array() && inputs->empty()))
    throw StatusError(400, "inputs must not be empty");
  request.inputs = embed_inputs(*inputs, InputKinds::kTextsAndTokens, request.partial);
  request.keep_alive = keep_alive_of(fields.value("keep_alive"));
  return request;
}

std::vector<Route> routes(Embedder& embedder, Catalog& catalog, Generator& generator,
                          const store::Store& store) {
  const auto models = std::make_shared<StoredModels>(store);
  std::vector<Route> routes;
  const auto add = [&](const char* pattern, CallHandler handler, bool is_traced) {
    Route& route = routes.emplace_back();
    route.methods = {http::Method::kPost};
    route.pattern = pattern;
    route.handler = std::move(handler);
    route.is_traced = is_traced;
  };
  add("/embed", [&embedder, models](Call& call) { embed(call, embedder, *models); }, true);
  for (const char* pattern : {"/rerank", "/v1/rerank"})
    add(pattern, [&embedder, models](Call& call) { rerank(call, embedder, *models); }, true);
  add(
      "/tokenize",
      [&catalog, &generator, models](Call& call) { tokenize(call, catalog, *models, generator); },
      false);
  for (const char* pattern : {"/detokenize", "/decode"})
    add(pattern, [&catalog, models](Call& call) { detokenize(call, catalog, *models); }, false);
  return routes;
}

}  // namespace billow::api::tei
