// billow generate: answers one prompt, or chats. With --in: generate_bulk.h.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/client/interrupt_watch.h"
#include "cli/client/line_editor.h"
#include "cli/client/status_line.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/generate_options.h"
#include "cli/interrupt.h"
#include "cli/output_file.h"
#include "cli/prompter.h"
#include "cli/summary.h"
#include "cli/terminal_line.h"
#include "context/compaction.h"
#include "context/truncation.h"
#include "engine/event_text.h"
#include "engine/memory_json.h"

namespace billow::cli {
namespace {

constexpr const char* kDefaultTask =
    "Write a Tic Tac Toe game in Python that two people can play in a terminal.";

Json logprob_json(const engine::Sampled& sampled) {
  Json top = Json::array();
  for (const engine::TokenLogprob& other : sampled.top) {
    top.push_back({{"token", other.token}, {"logprob", other.logprob}});
  }
  return {{"token", sampled.token}, {"logprob", sampled.logprob}, {"top", std::move(top)}};
}

Json report(const engine::Engine& engine, const GenerateOptions& options, const Answer& answer,
            std::chrono::nanoseconds load_time) {
  Json out = {{"model", options.model.model},
              {"response", answer.text},
              {"done_reason", answer.done_reason},
              {"seed", answer.seed},
              {"total_duration", (load_time + answer.prompt_time + answer.answer_time).count()},
              {"load_duration", load_time.count()},
              {"prompt_eval_count", answer.n_prompt},
              {"prompt_eval_duration", answer.prompt_time.count()},
              {"eval_count", answer.tokens.size()},
              {"eval_duration", answer.answer_time.count()},
              {"memory", memory_json(engine.memory())}};
  if (options.tokens) out["tokens"] = answer.tokens;
  if (answer.guide) {
    out["constraint"] = {{"masks", answer.guide->n_masks},
                         {"mask_duration", answer.guide->mask_time.count()},
                         {"longest_mask_duration", answer.guide->max_mask_time.count()},
                         {"forced_count", answer.guide->n_forced}};
  }
  if (options.sampling.n_logprobs >= 0) {
    out["logprobs"] = Json::array();
    for (const engine::Sampled& sampled : answer.sampled)
      out["logprobs"].push_back(logprob_json(sampled));
  }
  out["events"] = Json::array();
  for (const engine::SequenceEvent& event : answer.events)
    out["events"].push_back(event_json(event));
  out["summary"] = summary_json(answer, engine.memory().kv_max);
  return out;
}

std::string prompt_text(const GenerateOptions& options) {
  if (options.prompt) return *options.prompt;
  if (::isatty(STDIN_FILENO) != 0) return kDefaultTask;
  const std::string text{std::istreambuf_iterator<char>(std::cin),
                         std::istreambuf_iterator<char>()};
  return text.empty() ? kDefaultTask : text;
}

Answer answer_once(engine::Engine& engine, const GenerateOptions& options,
                   const AnswerSettings& settings, Trace* trace) {
  const std::string text = prompt_text(options);
  const Prompter prompter(engine, options.raw, options.think);
  Json messages = conversation_start(options.system);
  messages.push_back({{"role", "user"}, {"content", utf8::sanitized(text)}});
  const std::vector<int32_t> prompt =
      prompter.has_template() ? prompter.chat(messages) : prompter.plain(text);
  Console console({.text = !options.json, .progress = !options.quiet});
  return write_answer(engine, prompt, settings, console, trace);
}

void show(const engine::Engine& engine, const GenerateOptions& options, const Answer& answer,
          std::chrono::nanoseconds load_time) {
  if (options.json) return print_now(report(engine, options, answer, load_time).dump() + "\n");
  if (!answer.text.ends_with('\n')) print_now("\n");
  if (!options.quiet) std::fputs(summary_text(answer, engine.memory().kv_max).c_str(), stderr);
}

// Returns the max tokens of a prompt: half of the context, or more if the longest answer leaves
// more.
size_t longest_prompt(const GenerateSettings& settings) {
  const int64_t n_answer = settings.answer.sequence.max_new_tokens;
  const size_t half = context::longest_anchor(settings.top_rung);
  if (n_answer < 0 || static_cast<uint64_t>(n_answer) >= settings.top_rung) return half;
  return std::max(half, settings.top_rung - static_cast<size_t>(n_answer));
}

// Estimates the tokens of a message for context::fitting_messages.
context::ChatMessage estimate(const Prompter& prompter, const Json& message) {
  constexpr size_t kTokensAround = 4;  // that a template adds to a message, approximately
  const std::string role = message["role"];
  const size_t n_tokens = kTokensAround + prompter.plain(message["content"]).size();
  if (role == "system") return {context::ChatRole::kSystem, n_tokens};
  return {role == "user" ? context::ChatRole::kQuestion : context::ChatRole::kAnswer, n_tokens};
}

// Returns the conversation as a prompt of at most `limit` tokens. If necessary, removes the oldest
// messages. Throws Error if the system message and the last message alone do not fit.
std::vector<int32_t> fitting_prompt(const Prompter& prompter, Json& messages, size_t limit) {
  std::vector<int32_t> prompt = prompter.chat(messages);
  const size_t n_whole = prompt.size();
  if (n_whole <= limit) return prompt;
  std::vector<context::ChatMessage> estimates;
  for (const Json& message : messages) estimates.push_back(estimate(prompter, message));
  const auto part = [&](std::span<const size_t> indices) {
    Json kept = Json::array();
    for (const size_t i : indices) kept.push_back(messages[i]);
    return kept;
  };
  const context::FittingMessages fitting = context::fitting_messages(
      estimates, limit, 0, n_whole,
      [&](std::span<const size_t> indices) { return prompter.chat(part(indices)).size(); });
  Json kept = part(fitting.kept);
  prompt = prompter.chat(kept);
  if (!fitting.fits) {
    throw Error(ErrorCode::kTooLarge,
                fmt::format("the system message and the last message have {} tokens, but the "
                            "prompt may have at most {}; shorten them or allow a larger context",
                            prompt.size(), limit));
  }
  log::warn(
      fmt::format("the conversation has {} tokens, but at most {} leave room for an answer; its "
                  "oldest messages are left out ({} of {}), which leaves {} tokens",
                  n_whole, limit, messages.size() - kept.size(), messages.size(), prompt.size()));
  messages = std::move(kept);
  return prompt;
}

// Chats until the input ends. Returns the signal that ended the chat, or 0. Ctrl-C during an answer
// ends the answer; on a terminal, it clears the line that is edited.
int chat(engine::Engine& engine, const GenerateOptions& options, const GenerateSettings& settings) {
  const Prompter prompter(engine, options.raw, options.think);
  if (!prompter.has_template()) {
    throw Error(ErrorCode::kUnsupported,
                options.model.model +
                    ": the model has no chat template; use --prompt to let it continue a text");
  }
  const bool terminal = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  const std::unique_ptr<LineEditor> editor =
      terminal ? session_line_editor() : std::make_unique<PlainLineEditor>(std::cin);
  if (terminal) print_now("Write a message and press Enter. /clear starts over, /bye ends.\n");
  Json messages = conversation_start(options.system);
  int signal = 0;
  while (signal != SIGTERM) {
    const TypedLine typed = editor->read(false);
    const std::string& line = typed.text;
    if (typed.kind == TypedLine::Kind::kEnd || line == "/bye") break;
    if (typed.kind == TypedLine::Kind::kInterrupt) {
      if (line.empty()) print_now("Use Ctrl + d or /bye to exit.\n");
      continue;
    }
    if (line == "/clear") messages = conversation_start(options.system);
    if (!line.empty()) editor->add_to_history(line);
    if (line.empty() || line == "/clear") continue;
    messages.push_back({{"role", "user"}, {"content", utf8::sanitized(line)}});
    std::vector<int32_t> prompt;
    try {
      prompt = fitting_prompt(prompter, messages, longest_prompt(settings));
    } catch (const Error& error) {
      if (!terminal) throw;
      log::warn(error.what());  // the conversation continues without this message
      messages.erase(messages.size() - 1);
      continue;
    }
    Console console({.progress = !options.quiet});
    std::optional<InterruptWatch> watch;
    if (terminal) {
      Interrupt::record(0);  // a Ctrl-C after the last answer does not end this one
      watch.emplace([] { Interrupt::record(SIGINT); });
    }
    const Answer answer = write_answer(engine, prompt, settings.answer, console, nullptr);
    watch.reset();
    if (!answer.error.empty()) log::warn(answer.error);
    signal = answer.signal;
    messages.push_back({{"role", "assistant"}, {"content", answer.text}});
    print_now("\n\n");
  }
  return signal == SIGTERM ? signal : 0;
}

// Loads the engine. On a terminal, shows the progress of a load that takes a moment.
std::unique_ptr<engine::Engine> loaded_engine(gguf::File file, engine::EngineOptions options,
                                              bool shows_progress) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kMoment = std::chrono::milliseconds(200);
  if (!shows_progress || !is_smart_terminal(STDERR_FILENO))
    return std::make_unique<engine::Engine>(std::move(file), options);
  StatusLine status;
  const std::string step = "loading " + std::filesystem::path(file.path()).filename().string();
  options.on_load = [&, visible = Clock::now() + kMoment](size_t n_loaded, size_t n_to_load) {
    if (Clock::now() >= visible) status.show(step, n_loaded, n_to_load);
  };
  try {
    auto engine = std::make_unique<engine::Engine>(std::move(file), options);
    status.erase();
    return engine;
  } catch (...) {
    status.erase();  // the error gets the whole line
    throw;
  }
}

// Runs the command. Returns the signal that ended it, or 0.
int run(const GenerateOptions& options) {
  if (options.quiet) log::hide_info();
  const auto start = std::chrono::steady_clock::now();
  gguf::File file = gguf::File::open(options.model.model);
  const GenerateSettings settings = options.settings(file);
  std::optional<Trace> trace;
  if (!options.trace.empty()) {
    refuse_to_replace(options.trace, files_read(options.model, file));
    trace.emplace(options.trace);
  }
  const auto loaded = loaded_engine(std::move(file), settings.engine, !options.quiet);
  engine::Engine& engine = *loaded;
  const auto load_time = std::chrono::steady_clock::now() - start;
  if (options.chat) return chat(engine, options, settings);
  const Answer answer = answer_once(engine, options, settings.answer, trace ? &*trace : nullptr);
  show(engine, options, answer, load_time);
  if (trace) trace->close();
  if (!answer.error.empty()) throw Error(ErrorCode::kOutOfMemory, answer.error);
  return answer.signal;
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "generate", "Answer a prompt, or chat. With --in: answer all prompts of a file on a server");
  auto options = std::make_shared<GenerateOptions>();
  options->declare(*command);
  command->callback([options, command] {
    if (!options->bulk.rows.in.empty()) return generate_in_bulk(*command, *options);
    refuse_bulk_options(*command);
    if (const int signal = run(*options); signal != 0)
      throw CLI::RuntimeError(exit_status_of(signal));
  });
}

}  // namespace billow::cli
