#include "cli/generate_options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "cli/option_checks.h"
#include "context/ladder.h"
#include "context/sizing.h"

namespace billow::cli {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidInput, message);
}

// A value that a GGUF file may recommend, and the flag that overrides it.
struct RecommendedNumber {
  const char* key;
  const char* flag;
  float engine::SamplingOptions::* field;
};
struct RecommendedCount {
  const char* key;
  const char* flag;
  int32_t engine::SamplingOptions::* field;
};

using engine::SamplingOptions;
constexpr RecommendedNumber kNumbers[] = {
    {"general.sampling.temp", "--temperature", &SamplingOptions::temperature},
    {"general.sampling.top_p", "--top-p", &SamplingOptions::top_p},
    {"general.sampling.min_p", "--min-p", &SamplingOptions::min_p},
    {"general.sampling.penalty_repeat", "--repeat-penalty", &SamplingOptions::repeat_penalty},
    {"general.sampling.mirostat_tau", "--mirostat-tau", &SamplingOptions::mirostat_tau},
    {"general.sampling.mirostat_eta", "--mirostat-eta", &SamplingOptions::mirostat_eta},
};
constexpr RecommendedCount kCounts[] = {
    {"general.sampling.top_k", "--top-k", &SamplingOptions::top_k},
    {"general.sampling.penalty_last_n", "--repeat-last-n", &SamplingOptions::repeat_last_n},
    {"general.sampling.mirostat", "--mirostat", &SamplingOptions::mirostat},
};

}  // namespace

void GenerateOptions::declare(CLI::App& command) {
  command_ = &command;
  model.declare_without_context(command);
  model.declare_draft(command);
  declare_prompt(command);
  declare_answer(command);
  constraint.declare(command);
  declare_context(command);
  sampling.sampling.seed = 123;  // fixed: runs can be repeated
  command
      .add_option("--sampling-mode", sampling_mode,
                  "auto: use the options below; for options that are not given, use the GGUF "
                  "file's recommendations. greedy: always choose the best token")
      ->check(CLI::IsMember({"auto", "greedy"}))
      ->capture_default_str()
      ->group("Sampling");
  sampling.declare(command);
  declare_output(command);
  bulk.declare(command);
}

void GenerateOptions::declare_prompt(CLI::App& command) {
  const char* group = "Prompt";
  auto* text = command
                   .add_option("-p,--prompt", prompt,
                               "The prompt. Without --prompt and --chat: standard input; if that "
                               "is a terminal or empty, a sample task (a game in Python)")
                   ->group(group);
  command.add_flag("--chat", chat, "Chat: each line of standard input is a message")
      ->excludes(text)
      ->group(group);
  command.add_option("--system", system, "System message before the conversation")->group(group);
  command.add_flag("--raw", raw, "Continue the prompt as it is, without the model's chat template")
      ->group(group);
  command
      .add_flag("--think,!--no-think", think,
                "Let the model think before it answers, if it can; --no-think is the default")
      ->group(group);
}

void GenerateOptions::declare_answer(CLI::App& command) {
  const char* group = "Length of the answer";
  command
      .add_option("-n,--max-tokens,--num-predict", max_tokens,
                  "Max tokens to write; -1: no limit, -2: until the context is full, 0: only read "
                  "the prompt; --max-time overrides it")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--max-time", max_time,
                  "Max seconds for prompt and answer; overrides --max-tokens")
      ->group(group);
  command.add_option("--stop", stop, "Text that ends the answer; may be repeated")->group(group);
  command.add_flag("--ignore-eos", ignore_eos, "Continue when the model ends its answer")
      ->group(group);
}

void GenerateOptions::declare_context(CLI::App& command) {
  const char* group = "Context";
  command
      .add_option("--max-context-size,--max-context", max_context_size,
                  "Max tokens of the context; the default is lowered to the model's maximum")
      ->capture_default_str()
      ->group(group);
  command
      .add_option(
          "--context-sizes", context_sizes,
          "Sizes that the context grows through, like 512,1024,4096; default: 512, then doubling")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  command
      .add_option("--overflow-policy", overflow_policy,
                  "When the context is full: refill evaluates prompt and recent tokens again, "
                  "shift keeps what was computed for them, stop ends the answer")
      ->check(CLI::IsMember({"refill", "shift", "stop"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--overflow-reserve-batches", overflow_reserve_batches,
                  "Batches of recent tokens to keep when the context is full")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--overflow-batch", overflow_batch,
                  "Tokens per batch of --overflow-reserve-batches")
      ->capture_default_str()
      ->group(group);
}

void GenerateOptions::declare_output(CLI::App& command) {
  const char* group = "Output";
  command
      .add_flag("--live-events,!--no-live-events", live_events,
                "Show on standard error when the context grows or is compacted; the default, "
                "except with --quiet or --json")
      ->group(group);
  command.add_flag("--quiet", quiet, "No progress line, no summary, no log lines below warnings")
      ->group(group);
  command
      .add_flag("--json", json,
                "Print one JSON object: the answer, counts, durations in nanoseconds, events and "
                "the summary")
      ->group(group);
  command.add_flag("--tokens", tokens, "With --json: include the ids of the answer's tokens")
      ->group(group);
  command
      .add_option("--trace", trace,
                  "Write a CSV file with time, context and memory for each token of the answer")
      ->excludes(command.get_option("--chat"))
      ->group(group);
}

bool GenerateOptions::given(const char* name) const { return command_->count(name) > 0; }

GenerateSettings GenerateOptions::settings(const gguf::File& file) const {
  if (max_tokens < context::kFillContext) {
    refuse_usage(
        fmt::format("--max-tokens is {}, but must be -2 (until the context is full), -1 (no "
                    "limit), 0 (only read the prompt) or a number of tokens",
                    max_tokens));
  }
  GenerateSettings out;
  out.answer.max_time = time_limit();
  out.answer.stop = stop;
  out.answer.constraint = constraint.constraint();
  out.answer.live_events = given("--live-events") ? live_events : !quiet && !json;
  out.engine = model.engine();
  out.engine.max_context = context_for(file);
  // The next prompt of a chat begins with the whole conversation, so all of its KV stays cached.
  if (chat) out.engine.max_cached = std::numeric_limits<uint64_t>::max();

  engine::SequenceOptions& sequence = out.answer.sequence;
  sequence.sampling = sampling_for(file);
  sequence.max_new_tokens = std::max(token_limit(), context::kUnlimited);
  sequence.ignore_eos = ignore_eos;
  sequence.context.sizes = rungs();
  sequence.context.policy = policy();
  const context::Ladder ladder =
      context_sizes.empty() ? context::Ladder(out.engine.max_context)
                            : context::Ladder(sequence.context.sizes, out.engine.max_context);
  out.top_rung = ladder.top();
  sequence.context.compaction = compaction_within(out.top_rung);
  return out;
}

// With a time limit, the number of tokens has no limit.
int64_t GenerateOptions::token_limit() const {
  return given("--max-time") ? context::kUnlimited : max_tokens;
}

std::optional<std::chrono::duration<double>> GenerateOptions::time_limit() const {
  if (!given("--max-time")) return std::nullopt;
  if (!(max_time > 0.0) || !std::isfinite(max_time))
    refuse_usage(
        fmt::format("--max-time is {}, but must be a number of seconds above 0", max_time));
  return std::chrono::duration<double>(max_time);
}

size_t GenerateOptions::context_for(const gguf::File& file) const {
  if (max_context_size < 1)
    refuse_usage(fmt::format("--max-context-size is {}, but must be at least 1", max_context_size));
  const auto wanted = static_cast<size_t>(max_context_size);
  const std::string architecture(file.require_string("general.architecture"));
  const auto max = file.get_uint(architecture + ".context_length");
  if (!max || *max == 0) return wanted;  // loading reports the error
  if (wanted > *max && given("--max-context-size")) {
    refuse(
        fmt::format("--max-context-size {} is above the maximum context of {}, {} tokens; give "
                    "at most that",
                    wanted, file.path(), *max));
  }
  return std::min<size_t>(wanted, *max);
}

std::vector<size_t> GenerateOptions::rungs() const {
  std::vector<size_t> sizes;
  for (const int64_t size : context_sizes) {
    if (size < 1)
      refuse_usage(fmt::format("--context-sizes has a {}, but each must be at least 1", size));
    sizes.push_back(static_cast<size_t>(size));
  }
  return sizes;
}

context::OverflowPolicy GenerateOptions::policy() const {
  if (token_limit() == context::kFillContext) {
    if (given("--overflow-policy") && overflow_policy != "stop") {
      refuse_usage("--max-tokens -2 stops when the context is full, --overflow-policy " +
                   overflow_policy + " continues then; leave one of them out");
    }
    return context::OverflowPolicy::kStop;
  }
  if (overflow_policy == "stop") return context::OverflowPolicy::kStop;
  return overflow_policy == "shift" ? context::OverflowPolicy::kShift
                                    : context::OverflowPolicy::kRefill;
}

context::CompactionOptions GenerateOptions::compaction_within(size_t top_rung) const {
  if (overflow_reserve_batches < 0) {
    refuse_usage(fmt::format("--overflow-reserve-batches is {}, but must be at least 0",
                             overflow_reserve_batches));
  }
  if (overflow_batch < 1)
    refuse_usage(fmt::format("--overflow-batch is {}, but must be at least 1", overflow_batch));
  const auto reserve = static_cast<size_t>(overflow_reserve_batches);
  const auto batch = static_cast<size_t>(overflow_batch);
  // The defaults fit any context, because a compaction keeps less if necessary.
  const bool chosen = given("--overflow-reserve-batches") || given("--overflow-batch");
  if (chosen && reserve > 0 && batch >= (top_rung + reserve - 1) / reserve) {
    refuse(
        fmt::format("--overflow-reserve-batches {} of --overflow-batch {} tokens would fill the "
                    "whole context of {}; lower one of them",
                    reserve, batch, top_rung));
  }
  return {reserve, batch};
}

engine::SamplingOptions GenerateOptions::sampling_for(const gguf::File& file) const {
  SamplingFlags flags = sampling;
  // First the flags alone, so that an error names the flag or the file.
  as_usage([&] { (void)flags.checked(); });
  if (sampling_mode == "auto") take_recommendations(file, flags.sampling);
  engine::SamplingOptions options = flags.checked();
  if (sampling_mode == "greedy") options.temperature = 0.0f;
  return options;
}

void GenerateOptions::take_recommendations(const gguf::File& file,
                                           engine::SamplingOptions& options) const {
  for (const RecommendedNumber& number : kNumbers) {
    const auto value = file.get_float(number.key);
    if (value && !given(number.flag)) options.*number.field = static_cast<float>(*value);
  }
  for (const RecommendedCount& count : kCounts) {
    const auto value = file.get_float(count.key);
    if (!value || given(count.flag)) continue;
    using Limits = std::numeric_limits<int32_t>;
    if (!(*value >= Limits::min() && *value <= Limits::max())) {
      refuse(fmt::format("{}: {} is {}, which is out of range; give {} instead", file.path(),
                         count.key, *value, count.flag));
    }
    options.*count.field = static_cast<int32_t>(*value);
  }
  try {
    options.validate();
  } catch (const Error& error) {
    refuse(file.path() + ": a recommended general.sampling value is invalid: " + error.what() +
           "; give that option yourself");
  }
}

}  // namespace billow::cli
