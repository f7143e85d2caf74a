#include "api/local_embedder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "api/local_generator.h"
#include "api/request_options.h"
#include "base/json.h"
#include "base/log.h"
#include "context/sizing.h"
#include "http/status.h"

namespace billow::api {
namespace {

using http::StatusError;
using metrics::Clock;

constexpr const char* kTooLong = "the input length exceeds the context length";
constexpr const char* kNothingLeft = "input after truncation exceeds maximum context length";

}  // namespace

EmbedTokens embed_tokens(const tokenizer::Tokenizer& tokenizer, const std::string& text,
                         size_t limit, bool truncate) {
  std::vector<int32_t> tokens = tokenizer.encode(text);
  if (tokens.size() <= limit) return {std::move(tokens)};
  if (!truncate) {
    throw StatusError(400, std::string(kTooLong) + " (" + std::to_string(tokens.size()) + " of " +
                               std::to_string(limit) + " tokens)");
  }
  const bool has_last = tokenizer.add_eos() && tokens.size() > 1;
  const int32_t last = tokens.back();
  const size_t n_special = (tokenizer.add_bos() ? 1U : 0U) + (has_last ? 1U : 0U);
  if (limit <= n_special) throw StatusError(400, kNothingLeft);
  tokens.resize(limit);
  if (has_last) tokens.back() = last;
  return {std::move(tokens), true};
}

void finish_vector(std::vector<float>& vector, size_t dimensions, bool normalise) {
  double sum = 0.0;
  for (const float value : vector) {
    if (!std::isfinite(value)) throw StatusError(500, "embedding contains NaN or Inf values");
  }
  if (dimensions > 0 && dimensions < vector.size()) vector.resize(dimensions);
  if (!normalise) return;
  for (const float value : vector) sum += static_cast<double>(value) * value;
  const double norm = std::max(std::sqrt(sum), 1e-12);
  for (float& value : vector) value = static_cast<float>(value / norm);
}

LocalEmbedder::LocalEmbedder(Catalog& catalog, scheduler::Scheduler& scheduler,
                             metrics::Metrics& metrics)
    : catalog_(catalog), scheduler_(scheduler), metrics_(metrics) {}

EmbedReply LocalEmbedder::embed(const EmbedRequest& request, std::stop_token stop,
                                metrics::Trace& trace) {
  auto model = request.model.empty() ? nullptr : catalog_.find(request.model);
  if (!model) {
    throw StatusError(404, request.model.empty()
                               ? "model '' not found"
                               : "model \"" + request.model + "\" not found, try pulling it first");
  }
  const RequestOptions options = merged_options(model->stored.params_json, request.options_json);
  const size_t most = model->max_context();
  // Of an input there is nothing else that a num_ctx could mean: the most that is taken of it.
  const size_t limit = options.num_ctx == 0 ? most : std::min(most, options.num_ctx);
  std::vector<scheduler::EmbedInput> inputs;
  EmbedReply reply;
  reply.model = model->name;
  size_t n_longest = 0;
  size_t n_cut = 0;
  for (const std::string& text : request.inputs) {
    EmbedTokens input = embed_tokens(model->weights->tokenizer, text, limit, request.truncate);
    n_cut += input.is_cut ? 1U : 0U;
    const size_t n = input.tokens.size();
    inputs.push_back({std::move(input.tokens)});
    reply.n_prompt += n;
    n_longest = std::max(n_longest, n);
  }
  if (n_cut > 0) {
    log::warn(model->name + ": " + std::to_string(n_cut) + " inputs were cut to " +
              std::to_string(limit) + " tokens");
  }
  const size_t context = context::embedding_context(n_longest, most);
  trace.mark("tokenised", {{"inputs", inputs.size()}, {"tokens", reply.n_prompt}});
  trace.mark("sized", {{"context", context}, {"cut_inputs", n_cut}});
  const auto lease = scheduler_.acquire({.key = model->key,
                                         .name = model->name,
                                         .weights = model->stored.weights,
                                         .is_embedding = model->weights->facts.is_embedding,
                                         .cost = scheduler::cost_of(model->weights->facts, context),
                                         .n_context = inputs.empty() ? 0 : context,
                                         .keep_alive = keep_alive_of(request.keep_alive_json)},
                                        stop, trace_stages(trace));
  const Clock::time_point assigned = Clock::now();
  reply.load = assigned - trace.began();
  if (!inputs.empty()) {
    metrics_.queued(model->name, trace.route(), reply.load);
    for (scheduler::EmbedOutput& output : lease->embed({.inputs = std::move(inputs)})) {
      if (!output.error.empty()) throw StatusError(output.status, output.error);
      reply.vectors.push_back(std::move(output.values));
    }
    trace.span("embedded", assigned, Clock::now());
    metrics_.tokens(model->name, reply.n_prompt, 0, 0);
  }
  for (std::vector<float>& vector : reply.vectors)
    finish_vector(vector, request.dimensions, request.normalise);
  reply.total = Clock::now() - trace.began();
  return reply;
}

}  // namespace billow::api
