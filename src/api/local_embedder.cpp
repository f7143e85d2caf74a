#include "api/local_embedder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include "api/embed_tokens.h"
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

constexpr std::string_view kRank = "rank";
constexpr std::array<std::string_view, 5> kPoolings = {"mean", "cls", "last", "max", "none"};

std::shared_ptr<const ServedModel> found(Catalog& catalog, const std::string& name,
                                         std::stop_token stop) {
  auto model = name.empty() ? nullptr : catalog.find(name, std::move(stop));
  if (model) return model;
  throw StatusError(404, name.empty() ? "model '' not found"
                                      : "model \"" + name + "\" not found, try pulling it first");
}

// Throws if the model does not support the request.
void check(const ServedModel& model, const EmbedRequest& request) {
  const scheduler::ModelFacts& facts = model.facts();
  const std::string named = "model '" + model.name + "' ";
  if (!request.pooling.empty() && std::ranges::count(kPoolings, request.pooling) == 0) {
    throw StatusError(
        400, "unknown pooling '" + request.pooling + "': it can be mean, cls, last, max or none");
  }
  if (request.query && facts.pooling != kRank)
    throw StatusError(400, named + "is not a reranker: its file has no pooling of type rank");
  if (!request.query && !request.inputs.empty() && request.pooling.empty() &&
      facts.pooling == kRank)
    throw StatusError(400, named + "is a reranker: it scores pairs of texts (/rerank)");
  if (request.dimensions_must_fit && facts.embedding_length > 0 &&
      request.dimensions > facts.embedding_length) {
    throw StatusError(400, named + "has " + std::to_string(facts.embedding_length) +
                               " dimensions, not " + std::to_string(request.dimensions));
  }
}

// The inputs in the form that the runner needs.
struct Prepared {
  std::vector<scheduler::EmbedInput> inputs;
  std::vector<size_t> places;  // index of each input in the reply

  size_t n_longest() const {
    size_t n = 0;
    for (const scheduler::EmbedInput& input : inputs) n = std::max(n, input.tokens.size());
    return n;
  }
};

class Preparation {
 public:
  Preparation(const Weights& weights, const EmbedRequest& request, size_t limit)
      : tokenizer_(weights.tokenizer),
        rerank_template_(weights.rerank_template),
        request_(request),
        limit_(limit) {
    if (request.query && rerank_template_.empty()) query_ = content(*request.query);
  }

  // Tokenises all inputs. If the request is partial, errors become results in `reply`. Throws
  // http::StatusError.
  Prepared run(EmbedReply& reply) const {
    Prepared made;
    reply.results.resize(request_.inputs.size());
    for (size_t i = 0; i < request_.inputs.size(); ++i) {
      try {
        EmbedTokens input = tokens_of(request_.inputs[i]);
        reply.n_cut += input.is_cut ? 1U : 0U;
        reply.n_prompt += input.tokens.size();
        made.inputs.push_back({.tokens = std::move(input.tokens), .n_first = input.n_first});
        made.places.push_back(i);
      } catch (const StatusError& error) {
        if (!request_.partial) throw;
        reply.results[i].error = error.what();
        reply.results[i].status = error.status();
      }
    }
    return made;
  }

 private:
  std::vector<int32_t> content(const std::string& text) const {
    return tokenizer_.encode(text, {.add_special = false});
  }
  EmbedTokens tokens_of(const EmbedInput& input) const {
    if (const auto* fault = std::get_if<UnusableInput>(&input)) throw StatusError(400, fault->why);
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&input)) {
      if (!request_.query) return given_tokens(tokenizer_, *ids, limit_, request_.truncation);
      if (!rerank_template_.empty())
        throw StatusError(400, "this model ranks texts, not tokens; give the documents as texts");
      return pair_tokens(tokenizer_, query_, *ids, limit_, request_.truncation);
    }
    const std::string& text = std::get<std::string>(input);
    if (request_.query && !rerank_template_.empty()) {
      return rerank_tokens(tokenizer_, rerank_template_, *request_.query, text, limit_,
                           request_.truncation);
    }
    if (!request_.query) return text_tokens(tokenizer_, text, limit_, request_.truncation);
    return pair_tokens(tokenizer_, query_, content(text), limit_, request_.truncation);
  }

  const tokenizer::Tokenizer& tokenizer_;
  const std::string& rerank_template_;  // empty: pairs are joined by separators
  const EmbedRequest& request_;
  const size_t limit_;
  std::vector<int32_t> query_;
};

// Returns the same digest when the same inputs are sent together again. Does not recognise a text
// that repeats among other inputs.
uint64_t digest_of(const Prepared& prepared, const EmbedRequest& request,
                   const ServedModel& model) {
  std::string bytes = request.pooling + model.facts().adapters;
  const auto append = [&bytes](const auto* data, size_t n) {
    bytes.append(reinterpret_cast<const char*>(data), n * sizeof(*data));
  };
  for (const scheduler::EmbedInput& input : prepared.inputs) {
    const std::array<size_t, 2> sizes = {input.tokens.size(), input.n_first};
    append(sizes.data(), sizes.size());
    append(input.tokens.data(), input.tokens.size());
  }
  return std::hash<std::string>{}(bytes);
}

// Returns the context of each input in order: "1024 x 3, 2048, 1024 x 2". Lists at most kMaxRuns
// runs of equal contexts.
std::string contexts_text(const std::vector<scheduler::EmbedInput>& inputs, size_t max) {
  constexpr size_t kMaxRuns = 32;
  const auto context_of = [&](size_t i) {
    return context::embedding_context(inputs[i].tokens.size(), max);
  };
  std::string text;
  size_t begin = 0;
  for (size_t n_runs = 0; begin < inputs.size(); ++n_runs) {
    if (n_runs > 0) text += ", ";
    if (n_runs == kMaxRuns) return text + "...";
    size_t end = begin + 1;
    while (end < inputs.size() && context_of(end) == context_of(begin)) ++end;
    text += std::to_string(context_of(begin));
    if (end - begin > 1) text += " x " + std::to_string(end - begin);
    begin = end;
  }
  return text;
}

std::string context_reason(size_t n_inputs, size_t n_longest, size_t max) {
  const std::string which =
      n_inputs == 1 ? "the input" : "the longest of " + std::to_string(n_inputs) + " inputs";
  return std::to_string(n_longest) + " tokens of " + which + ", of " + std::to_string(max);
}

// Stores one output of the runner in its place. `size` is the model's vector size.
void take(scheduler::EmbedOutput output, size_t n_tokens, size_t size, const EmbedRequest& request,
          EmbedResult& result) {
  try {
    if (!output.error.empty()) throw StatusError(output.status, output.error);
    result.values = std::move(output.values);
    result.n_tokens = n_tokens;
    const bool is_score = request.query.has_value();
    if (is_score && result.values.empty()) throw StatusError(500, "the runner returned no score");
    if (n_tokens > 0 && result.values.size() != n_tokens * size)
      throw StatusError(500, "the runner did not return one vector for each token");
    finish_vectors(result, is_score ? 0 : request.dimensions, request.normalise && !is_score);
  } catch (const StatusError& error) {
    if (!request.partial) throw;
    result = {.error = error.what(), .status = error.status()};
  }
}

void embed_all(scheduler::Lease& lease, Prepared prepared, const EmbedRequest& request,
               const std::string& client, const ServedModel& model, EmbedReply& reply) {
  const scheduler::ModelFacts& facts = model.facts();
  const bool by_token = (request.pooling.empty() ? facts.pooling : request.pooling) == "none";
  std::vector<size_t> n_tokens;
  for (const scheduler::EmbedInput& input : prepared.inputs)
    n_tokens.push_back(by_token ? input.tokens.size() : 0);
  scheduler::EmbedOutputs outputs = lease.embed({.inputs = std::move(prepared.inputs),
                                                 .pooling = request.pooling,
                                                 .adapters = model.adapters_of_request(),
                                                 .is_bulk = request.is_bulk,
                                                 .client = client});
  if (outputs.size() != n_tokens.size())
    throw StatusError(500, "the runner returned a different number of vectors than requested");
  for (size_t i = 0; i < outputs.size(); ++i)
    take(std::move(outputs[i]), n_tokens[i], facts.embedding_length, request,
         reply.results[prepared.places[i]]);
}

}  // namespace

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

void finish_vectors(EmbedResult& result, size_t dimensions, bool normalise) {
  if (result.n_tokens == 0) return finish_vector(result.values, dimensions, normalise);
  if (result.values.size() % result.n_tokens != 0)
    throw StatusError(500, "the runner returned vectors of different sizes");
  const size_t size = result.values.size() / result.n_tokens;
  std::vector<float> all;
  for (size_t i = 0; i < result.n_tokens; ++i) {
    const auto begin = result.values.begin() + static_cast<std::ptrdiff_t>(i * size);
    std::vector<float> one(begin, begin + static_cast<std::ptrdiff_t>(size));
    finish_vector(one, dimensions, normalise);
    all.insert(all.end(), one.begin(), one.end());
  }
  result.values = std::move(all);
}

LocalEmbedder::LocalEmbedder(Catalog& catalog, scheduler::Scheduler& scheduler,
                             metrics::Metrics& metrics, LatestContexts& latest_contexts,
                             EmbedPolicy policy)
    : catalog_(catalog),
      scheduler_(scheduler),
      metrics_(metrics),
      latest_contexts_(latest_contexts),
      policy_(policy) {}

EmbedReply LocalEmbedder::embed(const EmbedRequest& request, std::stop_token stop,
                                metrics::Trace& trace) {
  const auto model = found(catalog_, request.model, stop);
  const scheduler::ModelFacts& facts = model->facts();
  const Options options = overlaid(model->options, request.options);
  check(*model, request);
  size_t limit = model->max_context();
  if (policy_.max_context > 0) limit = std::min(limit, policy_.max_context);
  // 0 in a request leaves no token, so Ollama refuses it. A model's parameter 0 is no cap.
  const bool has_cap = request.options.num_ctx || options.num_ctx.value_or(0) > 0;
  if (policy_.num_ctx == NumCtxPolicy::kCap && has_cap) limit = std::min(limit, *options.num_ctx);
  EmbedReply reply;
  reply.model = model->name;
  const Clock::time_point checked = Clock::now();
  Prepared prepared = Preparation(*model->weights, request, limit).run(reply);
  if (!request.inputs.empty()) metrics_.tokenized(model->name, Clock::now() - checked);
  if (reply.n_cut > 0) {
    log::warn(model->name + ": " + std::to_string(reply.n_cut) + " inputs were cut to " +
              std::to_string(limit) + " tokens");
  }
  trace.mark("tokenised", {{"inputs", prepared.inputs.size()}, {"tokens", reply.n_prompt}});
  const size_t n_longest = prepared.n_longest();
  const size_t context = context::embedding_context(n_longest, limit);
  if (!prepared.inputs.empty()) {
    reply.context = context;
    reply.context_reason = context_reason(prepared.inputs.size(), n_longest, limit);
    latest_contexts_.set(model->key, context);
    trace.mark("sized", {{"context", context},
                         {"reason", reply.context_reason},
                         {"contexts", contexts_text(prepared.inputs, limit)},
                         {"cut_inputs", reply.n_cut}});
  }
  const bool only_loads = request.inputs.empty();
  if (prepared.inputs.empty() && !only_loads) {  // all inputs have failed
    reply.total = Clock::now() - trace.began();
    return reply;
  }
  const auto lease =
      scheduler_.acquire({.key = model->key,
                          .name = model->name,
                          .weights = model->stored.weights,
                          .is_embedding = facts.is_embedding,
                          .cost = scheduler::cost_of(facts, only_loads ? 0 : context),
                          .engine = model->engine(),
                          .keep_alive = request.keep_alive,
                          .label = model->label,
                          .digest = only_loads ? 0 : digest_of(prepared, request, *model),
                          .tenant = trace.key(),
                          .work = std::max<uint64_t>(reply.n_prompt, 1),
                          .weight = trace.weight(),
                          .is_bulk = request.is_bulk},
                         stop, trace_stages(trace));
  const Clock::time_point assigned = Clock::now();
  reply.load = assigned - trace.began();
  if (!only_loads) {
    metrics_.queued(model->name, trace.route(), reply.load);
    trace.add_usage({.n_prompt = reply.n_prompt});
    // All clients with the same API key are one client, so that keys take turns.
    const std::string key = trace.key();
    embed_all(*lease, std::move(prepared), request, key.empty() ? request.client : key, *model,
              reply);
    trace.span("embedded", assigned, Clock::now());
    metrics_.tokens(model->name, {.n_prompt = reply.n_prompt});
  }
  reply.total = Clock::now() - trace.began();
  return reply;
}

}  // namespace billow::api
