#include "runner/served_embedder.h"

#include <chrono>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/json.h"
#include "base/utf8.h"
#include "engine/memory_json.h"
#include "runner/protocol.h"
#include "runner/response.h"

namespace billow::runner {
namespace {

constexpr size_t kMaxPasses = 64;  // max passes in /health

}  // namespace

ServedEmbedder::ServedEmbedder(std::vector<std::unique_ptr<engine::EmbedModel>> models,
                               engine::EmbedBatcherOptions options)
    : tokenizer_(models.front()->tokenizer()), batcher_(std::move(models), [&] {
        options.on_pass_begin = [this] { begin_pass(); };
        options.on_pass_end = [this](const engine::PassDone& pass) { end_pass(pass); };
        return std::move(options);
      }()) {}

void ServedEmbedder::begin_pass() {
  const std::scoped_lock lock(mutex_);
  if (n_running_++ == 0) meter_.begin_pass(Meter::Clock::now());
}

void ServedEmbedder::end_pass(const engine::PassDone& pass) {
  using std::chrono::milliseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::scoped_lock lock(mutex_);
  passes_.emplace_back(++n_passes_, std::chrono::duration_cast<milliseconds>(now).count(),
                       pass.n_texts, pass.n_tokens, pass.time.count() * 1e3);
  if (passes_.size() > kMaxPasses) passes_.pop_front();
  n_tokens_ += pass.n_tokens;
  if (--n_running_ == 0) meter_.end_pass(Meter::Clock::now(), std::exchange(n_tokens_, 0), 0);
}

void ServedEmbedder::add_state(Json& health) const {
  const engine::EmbedState state = batcher_.state();
  LoopRates rates;
  {
    const std::scoped_lock lock(mutex_);
    rates = meter_.rates(Meter::Clock::now());
    health["embed_passes"] = passes_;
  }
  health["running"] = state.load.n_requests_running;
  health["waiting"] = state.load.n_requests_waiting;
  health["max_context"] = engine::text_limit(batcher_.sizes(), batcher_.info().max_tokens);
  health["isa"] = batcher_.info().kernels;
  health["memory"] = memory_json(state.memory);
  health["budget_version"] = state.budget_version;
  health["held"] = state.memory.held();
  health["cached"] = state.memory.cached();
  health["wanted"] = state.memory.wanted;
  health["pending_prompt_tokens"] = state.load.n_pending_tokens + state.load.n_active_tokens;
  health["pending_decode_tokens"] = 0;
  health["busy_ratio"] = rates.busy;
  health["prompt_tokens_per_second"] = rates.prompt_tokens;
  health["decode_tokens_per_second"] = 0.0;
  health["embed_pending_tokens"] = state.load.n_pending_tokens;
  if (!state.degraded.empty()) health["degraded"] = utf8::sanitized(state.degraded);
  health["figures"] =
      figures_json(engine::embed_figures(state.counts, state.load, batcher_.sizes()));
}

void ServedEmbedder::complete(http::Exchange& exchange) {
  exchange.respond(error_response(501, "this model only embeds texts and does not generate text"));
}

void ServedEmbedder::embed(http::Exchange& exchange) {
  engine::EmbedRequest request = parse_embed(exchange.request().body);
  std::stop_source stop;
  exchange.on_client_gone([stop]() mutable { stop.request_stop(); });
  try {
    const std::optional<engine::EmbedAnswers> answers =
        batcher_.embed(std::move(request), stop.get_token());
    if (!answers) {
      exchange.respond(error_response(503, "cancelled"));
      return;
    }
    exchange.respond({.status = 200,
                      .content_type = "application/octet-stream",
                      .headers = {},
                      .body = embed_answer(*answers)});
  } catch (const engine::EmbedBusy& busy) {
    http::Response response = error_response(503, busy.what());
    response.headers.set("Retry-After", "1");
    exchange.respond(std::move(response));
  }
}

}  // namespace billow::runner
