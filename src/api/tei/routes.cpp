#include "api/tei/routes.h"

#include <utility>

#include "api/embed_fields.h"
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

std::string model_of(const Call& call, std::string in_body) {
  if (in_body.empty()) {
    const auto& query = call.request().query;
    if (const auto at = query.find("model"); at != query.end()) in_body = at->second;
  }
  if (in_body.empty())
    throw StatusError(400, "model is required: a field \"model\", or ?model=NAME behind the path");
  return in_body;
}

EmbedReply run(Call& call, Embedder& embedder, EmbedRequest& request) {
  request.model = model_of(call, std::move(request.model));
  read_embed_headers(call.request(), request);
  EmbedReply reply = embedder.embed(request, call.stop(), call.trace());
  call.set_model(reply.model);
  add_sizing_headers(call, reply);
  return reply;
}

void embed(Call& call, Embedder& embedder) {
  EmbedRequest request = decode_embed(Fields::parse(call.take_body().text, "EmbedRequest"));
  const EmbedReply reply = run(call, embedder, request);
  std::string body = "[";
  for (size_t i = 0; i < reply.results.size(); ++i) {
    if (i > 0) body += ',';
    const EmbedResult& result = reply.results[i];
    result.error.empty() ? append_vectors(body, result) : append_failure(body, i, result);
  }
  respond(call, body + ']');
}

void rerank(Call& call, Embedder& embedder) {
  RerankRequest request = decode_rerank(call.take_body().text);
  const EmbedReply reply = run(call, embedder, request.embed);
  respond(call, rerank_json(request, reply));
}

using TokensJson = std::string (*)(const tokenizer::Tokenizer& tokenizer, const Fields& fields);

void answer_tokens(Call& call, Catalog& catalog, TokensJson make_json) {
  const Fields fields = Fields::parse(call.take_body().text, "TokenizeRequest");
  const std::string name = model_of(call, fields.text("model"));
  const auto model = catalog.find(name, call.stop());
  if (!model) throw StatusError(404, "model '" + name + "' not found");
  call.set_model(model->name);
  respond(call, make_json(model->weights->tokenizer, fields));
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
  if (const Json* keep_alive = fields.value("keep_alive"))
    request.keep_alive_json = keep_alive->dump();
  return request;
}

std::vector<Route> routes(Embedder& embedder, Catalog& catalog) {
  std::vector<Route> routes;
  const auto add = [&](const char* pattern, CallHandler handler, bool is_traced) {
    Route& route = routes.emplace_back();
    route.methods = {http::Method::kPost};
    route.pattern = pattern;
    route.handler = std::move(handler);
    route.is_traced = is_traced;
  };
  add("/embed", [&embedder](Call& call) { embed(call, embedder); }, true);
  for (const char* pattern : {"/rerank", "/v1/rerank"})
    add(pattern, [&embedder](Call& call) { rerank(call, embedder); }, true);
  add("/tokenize", [&catalog](Call& call) { answer_tokens(call, catalog, tokenize_json); }, false);
  for (const char* pattern : {"/detokenize", "/decode"}) {
    add(pattern, [&catalog](Call& call) { answer_tokens(call, catalog, detokenize_json); }, false);
  }
  return routes;
}

}  // namespace billow::api::tei
