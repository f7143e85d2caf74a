#include "api/local_generator.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "api/answer_shape.h"
#include "api/answer_writer.h"
#include "api/cache_salt.h"
#include "api/prompt_builder.h"
#include "api/prompt_images.h"
#include "api/request_options.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "base/utf8.h"
#include "context/compaction.h"
#include "context/ladder.h"
#include "context/sizing.h"
#include "http/status.h"
#include "store/name.h"

namespace billow::api {
namespace {

constexpr size_t kAnyLength = size_t{1} << 40;  // tokens; more than any request has

using http::StatusError;
using metrics::Clock;

std::shared_ptr<const ServedModel> found(Catalog& catalog, const GenerationRequest& request,
                                         std::stop_token stop) {
  auto model = request.model.empty() ? nullptr : catalog.find(request.model, std::move(stop));
  if (!model) throw StatusError(404, "model '" + request.model + "' not found");
  return model;
}

scheduler::Job job_of(const ServedModel& model, const GenerationRequest& request,
                      const scheduler::ModelCost& cost) {
  return {.key = model.key,
          .name = model.name,
          .weights = model.stored.weights,
          .is_embedding = model.facts().is_embedding,
          .cost = cost,
          .engine = model.engine(),
          .keep_alive = request.keep_alive,
          .label = model.label,
          .is_bulk = request.is_bulk};
}

// Returns the same digest when the same prompt is sent again.
uint64_t digest_of(const scheduler::Completion& completion) {
  const std::vector<int32_t>& prompt = completion.prompt;
  constexpr std::hash<std::string_view> kHash;
  uint64_t digest =
      kHash({reinterpret_cast<const char*>(prompt.data()), prompt.size() * sizeof(prompt.front())});
  for (const context::PromptImage& image : completion.images)
    digest = digest * 31 + kHash(image.png) + image.at;
  return digest;
}

// Returns the rungs of a request. The context of the request is the last one. Empty: the usual
// ones.
std::vector<size_t> rungs_of(const GenerationPolicy& policy, size_t context) {
  std::vector<size_t> rungs = policy.sizes;
  if (!rungs.empty()) rungs.push_back(context);
  return rungs;
}

// Estimates the cost of the request at its start: the rung of its context that the runner grants
// first.
scheduler::ModelCost cost_of(const ServedModel& model, const Sizing& sizing,
                             const scheduler::Completion& completion) {
  const bool is_open_ended = completion.num_predict < 0 || sizing.context >= sizing.max_context;
  const size_t n_expected =
      is_open_ended ? context::expected_context(sizing.n_prompt, sizing.context) : sizing.context;
  const context::Ladder ladder = completion.sizes.empty()
                                     ? context::Ladder(sizing.context)
                                     : context::Ladder(completion.sizes, sizing.context);
  const size_t rung = ladder.holding(n_expected);
  return scheduler::cost_of(model.facts(), rung == 0 ? ladder.top() : rung,
                            completion.overflow_policy == "shift");
}

// Estimates the tokens of a request that are evaluated or generated.
uint64_t work_of(const Sizing& sizing, const scheduler::Completion& completion) {
  const size_t n_room = sizing.context - std::min(sizing.context, sizing.n_prompt);
  const size_t n_expected = context::expected_context(sizing.n_prompt, sizing.context);
  const size_t n_answer = completion.num_predict >= 0
                              ? std::min(static_cast<size_t>(completion.num_predict), n_room)
                              : n_expected - std::min(n_expected, sizing.n_prompt);
  return std::max<uint64_t>(sizing.n_prompt + n_answer, 1);
}

// Returns the text of a request after its end: the tokens that were evaluated. The last token of an
// answer was not, except before an end token, which is not part of the answer.
SlotText text_of(const scheduler::Completion& completion, const scheduler::CompletionEnd& end) {
  SlotText text{.text = {.tokens = completion.prompt,
                         .adapters = completion.adapters,
                         .salt = completion.salt},
                .has_images = !completion.images.empty()};
  std::vector<int32_t>& tokens = text.text.tokens;
  tokens.insert(tokens.end(), end.tokens.begin(), end.tokens.end());
  if (!end.tokens.empty() && end.n_generated <= end.tokens.size()) tokens.pop_back();
  return text;
}

// Explains the size of the context in one line for people.
std::string reason_of(const Sizing& sizing, int64_t num_predict, bool ends_when_full) {
  std::string text = std::to_string(sizing.n_prompt) + " tokens of the prompt and " +
                     std::to_string(sizing.n_answer) +
                     (num_predict >= 0 ? " asked for" : " left for the answer") + ", of " +
                     std::to_string(sizing.max_context);
  if (sizing.n_prompt < sizing.n_prompt_full)
    text += "; shortened from " + std::to_string(sizing.n_prompt_full);
  if (ends_when_full) text += "; the answer ends when the context is full";
  return text;
}

// A raw prompt gets a raw answer.
const output::Format& format_of(const ServedModel& model, const GenerationRequest& request) {
  static const output::Format plain;
  const bool is_plain =
      request.kind == GenerationKind::kPrompt && (request.raw || !request.prompt_tokens.empty());
  return is_plain ? plain : model.format;
}

// Returns the prompt in the form that precedes its answer.
std::string prompt_text(const ServedModel& model, const GenerationRequest& request,
                        const BuiltPrompt& prompt) {
  if (request.prompt_tokens.empty()) return request.prompt;
  return utf8::sanitized(model.weights->tokenizer.decode(prompt.tokens, {.render_special = true}));
}

// Counts what one answer costs, for the request with its API key and for the metrics of the model.
class Costs {
 public:
  Costs(metrics::Metrics& metrics, metrics::Trace& trace, std::string model)
      : metrics_(metrics), trace_(trace), model_(std::move(model)) {}

  void first_token(Clock::time_point at) const {
    metrics_.first_token(model_, trace_.route(), at - trace_.began());
  }
  // Counts an answer that the runner has ended, perhaps with an error.
  void whole(const scheduler::CompletionEnd& end) const {
    trace_.add_usage({.n_prompt = end.n_prompt,
                      .n_cached = end.n_cached,
                      .n_generated = end.n_generated,
                      .done_reasons = {end.done_reason}});
    metrics_.tokens(model_, {.n_prompt = end.n_prompt,
                             .n_cached = end.n_cached,
                             .n_generated = end.n_generated,
                             .n_drafted = end.n_drafted,
                             .n_draft_accepted = end.n_draft_accepted});
  }
  // Counts an answer without an end: about the tokens that were evaluated and written.
  void part(size_t n_prompt, size_t n_generated) const {
    if (n_prompt + n_generated == 0) return;
    trace_.add_usage({.n_prompt = n_prompt, .n_generated = n_generated});
    metrics_.tokens(model_, {.n_prompt = n_prompt, .n_generated = n_generated});
  }

 private:
  metrics::Metrics& metrics_;
  metrics::Trace& trace_;
  const std::string model_;
};

// Completes a prompt of n_prompt tokens and counts its costs, however the answer ends. If the
// client leaves, the whole prompt and an estimate of the answer count, because the runner reports
// no end. If the runner fails, what it had evaluated counts.
scheduler::CompletionEnd complete(scheduler::Lease& lease, const scheduler::Completion& completion,
                                  size_t n_prompt, AnswerWriter& writer, const Costs& costs) {
  bool wanted = true;
  size_t n_read = 0;  // tokens of the prompt that a runner has evaluated
  const auto count_part = [&](size_t n_evaluated) {
    costs.part(n_evaluated, writer.n_tokens_about());
    if (writer.first() && !completion.may_begin_again) costs.first_token(*writer.first());
  };
  try {
    scheduler::CompletionEnd end =
        lease.complete(completion, [&](const scheduler::CompletionPiece& piece) {
          for (const scheduler::Prefill& part : piece.prefill)
            n_read = std::max(n_read, part.n_done);
          return wanted = writer.take(piece);
        });
    if (!wanted) throw scheduler::Cancelled();
    costs.whole(end);
    return end;
  } catch (const scheduler::Cancelled&) {
    count_part(n_prompt);
    throw;
  } catch (...) {
    count_part(writer.first() ? n_prompt : std::min(n_read, n_prompt));
    throw;
  }
}

// Records the stages of a runner in the trace of a request that it got at the time `assigned`.
void trace_runner(const scheduler::CompletionEnd& end, Clock::time_point assigned,
                  metrics::Trace& trace) {
  const Clock::time_point prepared = assigned + end.pictures_prepared;
  if (prepared > assigned) trace.span("prepare pictures", assigned, prepared);
  const Clock::time_point taken = prepared + end.queued;
  trace.span("slot", prepared, taken);
  if (end.pictures_encoded.count() > 0)
    trace.span("encode pictures", taken, taken + end.pictures_encoded);
}

}  // namespace

scheduler::OnStage trace_stages(metrics::Trace& trace) {
  return [&trace, since = Clock::now(),
          last = std::optional<scheduler::JobStage>()](scheduler::JobStage stage) mutable {
    constexpr const char* kNames[] = {"queued", "loading", "slot", "retrying"};
    if (stage == scheduler::JobStage::kWaiting) return;
    const Clock::time_point now = Clock::now();
    if (last && *last != scheduler::JobStage::kAssigned)
      trace.span(kNames[static_cast<size_t>(*last)], since, now);
    if (stage == scheduler::JobStage::kAssigned) trace.mark("assigned");
    last = stage;
    since = now;
  };
}

struct LocalGenerator::Plan {
  BuiltPrompt prompt;
  Sizing sizing;
  scheduler::Completion completion;
  output::Format format;  // of the answer
};

LocalGenerator::LocalGenerator(Catalog& catalog, scheduler::Scheduler& scheduler,
                               metrics::Metrics& metrics, LatestContexts& latest_contexts,
                               Slots& slots, PictureAddresses& addresses, GenerationPolicy policy,
                               OnContextEvent on_context_event)
    : catalog_(catalog),
      scheduler_(scheduler),
      metrics_(metrics),
      latest_contexts_(latest_contexts),
      slots_(slots),
      addresses_(addresses),
      policy_(std::move(policy)),
      on_context_event_(std::move(on_context_event)) {}

void LocalGenerator::run(const GenerationRequest& given, Sink& sink, std::stop_token stop,
                         metrics::Trace& trace) {
  GenerationRequest fetched;  // the request, if it has addresses of pictures
  if (has_picture_addresses(given.messages)) fetched = given;
  const bool has_addresses = !fetched.messages.empty();
  const GenerationRequest& request = has_addresses ? fetched : given;
  const bool is_load = asks_nothing(request);
  std::shared_ptr<const ServedModel> model;
  try {
    model = found(catalog_, request, stop);
  } catch (const StatusError& error) {
    if (!is_load || request.keep_alive != scheduler::Duration::zero()) throw;
    // A model that is gone or cannot be read may have been loaded before.
    const std::optional<store::Name> name = store::parse_name(trimmed(request.model));
    const std::string shown = name ? store::display_name(*name) : request.model;
    if (!end_runners(shown) && error.status() != 500) throw;
    sink.found(shown);
    sink.end({.done_reason = "unload"});
    return;
  }
  trace.mark("found", {{"model", model->name}});
  sink.found(model->name);
  if (!is_load) check_capabilities(*model, request);
  if (!request.wrong_options.empty()) throw StatusError(500, request.wrong_options);
  if (is_load) return load_or_end(*model, request, sink, stop, trace);
  if (has_addresses) {
    const Clock::time_point begin = Clock::now();
    addresses_.fetch(fetched.messages, stop);
    trace.span("fetch pictures", begin, Clock::now());
  }
  Plan made = plan(*model, request, stop, trace);
  if (!request.counts_only) made.sizing.cost = cost_of(*model, made.sizing, made.completion);
  sink.sized(made.sizing);
  if (request.render_only) {
    sink.rendered(made.prompt.text, made.prompt.images.size());
    return;
  }
  answer(*model, request, std::move(made), sink, stop, trace);
}

void LocalGenerator::load_or_end(const ServedModel& model, const GenerationRequest& request,
                                 Sink& sink, std::stop_token stop, metrics::Trace& trace) {
  Ending ending;
  if (request.keep_alive == scheduler::Duration::zero()) {
    scheduler_.stop(model.key);
    end_runners(model.name);
    ending.done_reason = "unload";
  } else {
    const auto lease = scheduler_.acquire(
        job_of(model, request, scheduler::cost_of(model.facts(), 0)), stop, trace_stages(trace));
    ending.done_reason = "load";
  }
  sink.end(ending);
}

bool LocalGenerator::end_runners(const std::string& name) {
  bool has_any = false;
  for (const scheduler::LoadedModel& loaded : scheduler_.state().models) {
    if (loaded.model.name != name) continue;
    scheduler_.stop(loaded.model.key);
    has_any = true;
  }
  return has_any;
}

namespace {

std::vector<int32_t> prediction_of(const ServedModel& model, const GenerationRequest& request) {
  if (request.prediction.empty()) return {};
  return model.weights->tokenizer.encode(request.prediction,
                                         {.add_special = false, .parse_special = false});
}

// Returns the options of the model and of the request, with the seed of this choice.
Options options_for(const ServedModel& model, const GenerationRequest& request) {
  Options options = overlaid(model.options, request.options);
  if (std::optional<int64_t>& seed = options.sampling.seed;
      seed && *seed >= 0 && *seed <= INT64_MAX - request.seed_shift)
    *seed += request.seed_shift;
  return options;
}

// Returns whether prompt and answer may exceed the context.
bool may_fill(const context::SizeRequest& wanted, size_t context) {
  return wanted.num_predict < 0 ||
         wanted.n_prompt + static_cast<size_t>(wanted.num_predict) > context;
}

// Returns whether the answer may go on in a full context. Compaction needs a prompt of at most half
// the context.
bool may_compact(const GenerationRequest& request, const context::SizeRequest& wanted,
                 size_t context) {
  return request.shift.value_or(true) && wanted.num_predict != context::kFillContext &&
         wanted.n_prompt <= context::longest_anchor(context);
}

}  // namespace

LocalGenerator::Plan LocalGenerator::plan(const ServedModel& model,
                                          const GenerationRequest& request,
                                          const std::stop_token& stop, metrics::Trace& trace) {
  const Options options = options_for(model, request);
  const int64_t num_predict = options.num_predict.value_or(context::kUnlimited);
  const size_t max = policy_.max_context == 0 ? model.max_context()
                                              : std::min(policy_.max_context, model.max_context());
  context::SizeRequest size_request{
      .n_prompt = 0,
      .num_predict = num_predict < context::kFillContext ? context::kUnlimited : num_predict,
      .max_context = max};
  if (policy_.num_ctx == NumCtxPolicy::kCap) size_request.num_ctx_cap = options.num_ctx.value_or(0);
  const size_t limit = context::right_size(size_request).max_context;

  const Clock::time_point begin = Clock::now();
  const auto check = [&stop] {
    if (stop.stop_requested()) throw scheduler::Cancelled();
  };
  const PromptLimits limits{request.counts_only ? kAnyLength : limit, size_request.num_predict};
  Plan plan{.prompt = build_prompt(model, request, limits, check),
            .sizing = {},
            .completion = {},
            .format = {}};
  metrics_.tokenized(model.name, Clock::now() - begin);
  trace.span("rendered", begin, Clock::now(),
             {{"bytes", plan.prompt.text.size()}, {"times", plan.prompt.n_renderings}});
  const size_t n_prompt = plan.prompt.n_positions();
  trace.mark("tokenised", {{"tokens", n_prompt}, {"left_out_messages", plan.prompt.n_left_out}});
  if (request.counts_only) {
    plan.sizing.n_prompt = plan.sizing.n_prompt_full = n_prompt;
    plan.sizing.max_context = limit;
    return plan;
  }

  size_request.n_prompt = n_prompt;
  const context::Size size = context::right_size(size_request);
  const bool ends_when_full =
      may_fill(size_request, size.context) &&
      (!may_compact(request, size_request, size.context) || policy_.overflow_policy == "stop");
  plan.sizing = {.n_prompt = n_prompt,
                 .n_prompt_full = plan.prompt.n_full,
                 .n_answer = size.n_answer,
                 .context = size.context,
                 .max_context = size.max_context,
                 .reason = ""};
  plan.sizing.reason = reason_of(plan.sizing, size_request.num_predict, ends_when_full);
  trace.mark("sized", {{"context", size.context}, {"reason", plan.sizing.reason}});
  log::info(model.name + ": context " + std::to_string(size.context) + ": " + plan.sizing.reason);

  AnswerShape shape = shape_of(request, format_of(model, request), plan.prompt.start);
  if (shape.ignores_strict) trace.mark("strict is not enforced");
  const std::span<const std::string> markers = output::control_markers(shape.format);
  plan.completion = {.prompt = plan.prompt.tokens,
                     .images = request.render_only ? std::vector<context::PromptImage>()
                                                   : images_of(plan.prompt, stop),
                     .prompt_text = plan.prompt.text_of_tokens,
                     .sampling = options.sampling,
                     .stop = options.stop.value_or(std::vector<std::string>()),
                     .num_predict = size_request.num_predict,
                     .ignore_eos = request.ignore_eos,
                     .max_draft = options.max_draft,
                     .prediction = prediction_of(model, request),
                     .logprobs = request.logprobs || request.top_logprobs > 0,
                     .top_logprobs = request.top_logprobs,
                     .prompt_logprobs = wants_prompt_logprobs(request),
                     .max_context = size.context,
                     .sizes = rungs_of(policy_, size.context),
                     .overflow_policy = ends_when_full ? "stop" : policy_.overflow_policy,
                     .reserve_batches = policy_.reserve_batches,
                     .overflow_batch = policy_.overflow_batch,
                     .max_repeats = kMaxRepeats,
                     .constraint = std::move(shape.constraint),
                     .ends_repetition = size_request.num_predict < 0,
                     .markers = {markers.begin(), markers.end()},
                     .adapters = model.adapters_of_request(),
                     .salt = prefix_salt(trace.key(), request.cache_salt)};
  plan.format = std::move(shape.format);
  plan.prompt.start = std::move(shape.start);
  if (plan.completion.num_predict == context::kUnlimited && !ends_when_full)
    plan.completion.num_predict = static_cast<int64_t>(kMaxContexts * size.max_context);
  return plan;
}

std::vector<context::PromptImage> LocalGenerator::images_of(BuiltPrompt& prompt,
                                                            const std::stop_token& stop) {
  std::vector<context::PromptImage> images;
  for (BuiltImage& image : prompt.images) {
    if (stop.stop_requested()) throw scheduler::Cancelled();
    decoders_.acquire();
    const struct Released {
      std::counting_semaphore<>& decoders;
      ~Released() { decoders.release(); }
    } released{decoders_};
    image.place.png = png_of_image(*image.bytes, image.index);
    images.push_back(image.place);
  }
  return images;
}

void LocalGenerator::answer(const ServedModel& model, const GenerationRequest& request, Plan plan,
                            Sink& sink, std::stop_token stop, metrics::Trace& trace) {
  latest_contexts_.set(model.key, plan.sizing.context);
  const scheduler::ModelCost cost = plan.sizing.cost;
  AnswerWriter writer(request, plan.completion.prompt.size(),
                      form_of(model, request, std::move(plan.format), std::move(plan.prompt.start)),
                      sink, trace, [&](const Json& event) {
                        if (on_context_event_) on_context_event_(trace, model.name, event);
                      });
  const auto on_stage = [&writer, &sink,
                         trace_stage = trace_stages(trace)](scheduler::JobStage stage) {
    trace_stage(stage);
    if (stage == scheduler::JobStage::kRetrying) writer.restart();
    if (stage == scheduler::JobStage::kWaiting) sink.still_working();
  };
  scheduler::Job job = job_of(model, request, cost);
  job.digest = digest_of(plan.completion);
  job.tenant = trace.key();
  job.weight = trace.weight();
  job.work = work_of(plan.sizing, plan.completion);
  const auto lease = scheduler_.acquire(job, stop, on_stage);
  const Clock::time_point assigned = Clock::now();
  metrics_.queued(model.name, trace.route(), assigned - trace.began());

  const scheduler::Completion& completion = plan.completion;
  Slots::Use slot =
      slots_.begin(slot_key(model.key, completion.salt), request.slot, completion.prompt);
  writer.set_slot(slot.id());
  slot.set(text_of(completion, {}));
  plan.completion.may_begin_again = sink.holds_back();
  plan.completion.is_bulk = request.is_bulk;
  if (request.echo && !writer.echo(prompt_text(model, request, plan.prompt)))
    throw scheduler::Cancelled();
  const Costs costs(metrics_, trace, model.name);
  const scheduler::CompletionEnd end =
      complete(*lease, completion, plan.sizing.n_prompt, writer, costs);
  const Clock::time_point now = Clock::now();
  // A runner that sends the answer as a whole reports the time from its first token.
  const Clock::time_point first =
      completion.may_begin_again ? now - end.written : writer.first().value_or(now);
  if (end.error.empty() || end.n_generated > 0) costs.first_token(first);
  if (!end.error.empty()) throw StatusError(500, end.error);
  // A context that became full has dropped tokens, so that no KV of the whole text exists.
  if (completion.prompt.size() + end.tokens.size() <= plan.sizing.context)
    slot.set(text_of(completion, end));

  trace_runner(end, assigned, trace);
  if (completion.may_begin_again) trace.span("first token", first, first);
  trace.span("decode", first, now,
             {{"tokens", end.n_generated},
              {"drafted", end.n_drafted},
              {"draft_accepted", end.n_draft_accepted}});
  writer.finish(end);

  Ending ending{.slot = static_cast<int64_t>(slot.id()),
                .done_reason = end.done_reason,
                .context = {},
                .n_prompt = plan.completion.images.empty() ? plan.sizing.n_prompt : end.n_prompt,
                .n_cached = end.n_cached,
                .n_generated = end.n_generated,
                .n_drafted = end.n_drafted,
                .n_draft_accepted = end.n_draft_accepted,
                .total = now - trace.began(),
                .load = assigned - trace.began(),
                .prompted = end.prompted,
                .written = end.written};
  // Other stop strings are the model's own and are not reported.
  if (request.options.stop) ending.stop_string = end.stop_string;
  if (!request.raw) ending.context = context_of(model, std::move(plan.prompt.tokens), end.tokens);
  sink.end(ending);
}

}  // namespace billow::api
