#include "api/ollama/embedding.h"

#include <string>
#include <utility>

#include "api/embed_fields.h"
#include "api/ollama/errors.h"
#include "api/request_options.h"
#include "api/vector_text.h"
#include "base/json.h"
#include "http/status.h"
#include "scheduler/runner.h"

namespace billow::api::ollama {
namespace {

using http::StatusError;

void decode_shared(const Fields& fields, EmbedRequest& request) {
  request.model = fields.text("model");
  if (const Json* options = fields.object("options")) request.options = options_of(*options, 500);
  request.keep_alive = keep_alive_of(fields.value("keep_alive"));
}

EmbedReply run(Call& call, Embedder& embedder, EmbedRequest& request) {
  read_embed_headers(call.request(), request);
  try {
    EmbedReply reply = embedder.embed(request, call.stop(), call.trace());
    call.set_model(reply.model);
    add_sizing_headers(call, reply);
    return reply;
  } catch (const scheduler::Cancelled& cancelled) {
    throw StatusError(499, cancelled.what());
  }
}

void respond(Call& call, std::string body) {
  call.respond({.status = 200,
                .content_type = std::string(kJsonType),
                .headers = {},
                .body = std::move(body)});
}

// Returns the whole answer: the model, the vectors, then the durations and the token count.
std::string body_of(const std::string& model, const EmbedReply& reply) {
  std::string body = "{\"model\":" + to_text(model) + ",\"embeddings\":[";
  for (size_t i = 0; i < reply.results.size(); ++i) {
    if (i > 0) body += ',';
    const EmbedResult& result = reply.results[i];
    result.error.empty() ? append_vectors(body, result) : append_failure(body, i, result);
  }
  body += ']';
  const auto add = [&](const char* name, int64_t count) {
    if (count != 0) body += std::string(",\"") + name + "\":" + std::to_string(count);
  };
  add("total_duration", reply.total.count());
  add("load_duration", reply.load.count());
  add("prompt_eval_count", static_cast<int64_t>(reply.n_prompt));
  return body + '}';
}

void embed(Call& call, Embedder& embedder) {
  EmbedRequest request = decode_embed(Fields::parse(call.take_body().text, "EmbedRequest"));
  respond(call, body_of(request.model, run(call, embedder, request)));
}

void embeddings(Call& call, Embedder& embedder) {
  EmbedRequest request =
      decode_embeddings(Fields::parse(call.take_body().text, "EmbeddingRequest"));
  if (request.model.empty()) throw StatusError(400, "model is required");
  const EmbedReply reply = run(call, embedder, request);
  std::string body = "{\"embedding\":";
  append_vectors(body, reply.results.empty() ? EmbedResult() : reply.results.front());
  respond(call, body + '}');
}

}  // namespace

EmbedRequest decode_embed(const Fields& fields) {
  EmbedRequest request;
  decode_shared(fields, request);
  read_embed_fields(fields, request);
  const Json* input = fields.value("input");
  if (input == nullptr || (input->is_string() && input->get_ref<const std::string&>().empty()))
    return request;
  request.inputs = embed_inputs(*input, InputKinds::kTexts, request.partial);
  return request;
}

EmbedRequest decode_embeddings(const Fields& fields) {
  EmbedRequest request;
  decode_shared(fields, request);
  request.normalise = false;
  const std::string prompt = fields.text("prompt");
  if (!prompt.empty()) request.inputs.push_back(prompt);
  return request;
}

std::vector<Route> embedding_routes(Embedder& embedder) {
  std::vector<Route> routes;
  const auto add = [&](const char* pattern, void (*handler)(Call&, Embedder&)) {
    Route& route = routes.emplace_back();
    route.methods = {http::Method::kPost};
    route.pattern = pattern;
    route.is_traced = true;
    route.handler = [&embedder, handler](Call& call) { handler(call, embedder); };
  };
  add("/api/embed", embed);
  add("/api/embeddings", embeddings);
  return routes;
}

}  // namespace billow::api::ollama
