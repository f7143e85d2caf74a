#include "api/ollama/embedding.h"

#include <string>
#include <utility>

#include "api/ollama/errors.h"
#include "api/vector_text.h"
#include "base/json.h"
#include "http/status.h"
#include "scheduler/runner.h"

namespace billow::api::ollama {
namespace {

using http::StatusError;

void decode_shared(const Fields& fields, EmbedRequest& request) {
  request.model = fields.text("model");
  if (const Json* options = fields.object("options")) request.options_json = options->dump();
  if (const Json* keep_alive = fields.value("keep_alive"))
    request.keep_alive_json = keep_alive->dump();
}

EmbedReply run(Call& call, Embedder& embedder, const EmbedRequest& request) {
  try {
    EmbedReply reply = embedder.embed(request, call.stop(), call.trace());
    call.set_model(reply.model);
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

// The object of `rest` with the vectors behind its first field.
std::string body_of(const std::string& model, const EmbedReply& reply) {
  std::string body = "{\"model\":" + to_text(model) + ",\"embeddings\":[";
  for (size_t i = 0; i < reply.vectors.size(); ++i) {
    if (i > 0) body += ',';
    append_vector(body, reply.vectors[i]);
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
  const EmbedRequest request = decode_embed(Fields::parse(call.request().body, "EmbedRequest"));
  respond(call, body_of(request.model, run(call, embedder, request)));
}

void embeddings(Call& call, Embedder& embedder) {
  const EmbedRequest request =
      decode_embeddings(Fields::parse(call.request().body, "EmbeddingRequest"));
  if (request.model.empty()) throw StatusError(400, "model is required");
  const EmbedReply reply = run(call, embedder, request);
  std::string body = "{\"embedding\":";
  append_vector(body, reply.vectors.empty() ? std::vector<float>() : reply.vectors.front());
  respond(call, body + '}');
}

}  // namespace

EmbedRequest decode_embed(const Fields& fields) {
  EmbedRequest request;
  decode_shared(fields, request);
  request.truncate = fields.flag("truncate").value_or(true);
  const int64_t dimensions = fields.integer("dimensions").value_or(0);
  request.dimensions = dimensions > 0 ? static_cast<size_t>(dimensions) : 0;
  const Json* input = fields.value("input");
  if (input == nullptr) return request;
  if (input->is_string()) {
    if (!input->get_ref<const std::string&>().empty())
      request.inputs.push_back(input->get<std::string>());
    return request;
  }
  if (!input->is_array()) throw StatusError(400, "invalid input type");
  for (const Json& text : *input) {
    if (!text.is_string()) throw StatusError(400, "invalid input type");
    request.inputs.push_back(text.get<std::string>());
  }
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
