// billow generate: answers one prompt, or chats.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/memory_json.h"
#include "cli/sampling_options.h"
#include "engine/generation.h"
#include "prompt/chat_template.h"

namespace billow::cli {
namespace {

using Clock = std::chrono::steady_clock;

int64_t nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

struct GenerateOptions {
  ModelOptions model;
  SamplingFlags sampling;
  std::optional<std::string> prompt;
  std::string system;
  std::vector<std::string> stop;
  int64_t num_predict = -1;
  bool chat = false;
  bool raw = false;
  bool ignore_eos = false;
  bool json = false;
  bool tokens = false;
};

// What one answer was and took.
struct Answer {
  std::string text;
  std::vector<int32_t> tokens;
  Json logprobs = Json::array();
  size_t n_prompt = 0;
  int64_t seed = 0;
  const char* done_reason = "";
  Clock::duration prompt_time{};  // to the first token
  Clock::duration answer_time{};  // from the first token on
};

Json logprob_json(const engine::Sampled& sampled) {
  Json top = Json::array();
  for (const engine::TokenLogprob& other : sampled.top) {
    top.push_back({{"token", other.token}, {"logprob", other.logprob}});
  }
  return {{"token", sampled.token}, {"logprob", sampled.logprob}, {"top", std::move(top)}};
}

// Generates, passing text on to `show` as it comes.
template <class Show>
Answer generate(engine::Engine& engine, const GenerateOptions& options, std::vector<int32_t> prompt,
                Show show) {
  Answer answer;
  answer.n_prompt = prompt.size();
  engine::SequenceOptions sequence_options;
  sequence_options.sampling = options.sampling.checked();
  sequence_options.max_new_tokens = options.num_predict;
  sequence_options.ignore_eos = options.ignore_eos;
  const Clock::time_point start = Clock::now();
  Clock::time_point first = start;
  engine::Generation generation(engine, std::move(prompt), sequence_options, options.stop);
  const auto take = [&](const std::string& text) {
    answer.text += text;
    show(text);
  };
  while (!generation.finished()) {
    const std::vector<engine::Engine::Token> made = engine.step();
    if (first == start && (!made.empty() || generation.finished())) first = Clock::now();
    for (const engine::Engine::Token& token : made) {
      if (sequence_options.sampling.logprobs && !token.is_end) {
        answer.logprobs.push_back(logprob_json(token.sampled));
      }
      take(generation.accept(token));
    }
  }
  take(generation.finish());
  const engine::Sequence& sequence = generation.sequence();
  answer.tokens.assign(sequence.tokens().begin() + static_cast<std::ptrdiff_t>(sequence.n_prompt()),
                       sequence.tokens().end());
  answer.done_reason = engine::finish_reason_name(sequence.finish_reason());
  answer.seed = sequence.seed();
  answer.prompt_time = first - start;
  answer.answer_time = Clock::now() - first;
  return answer;
}

// Prompts as tokens: raw, or through the model's chat template.
class Prompter {
 public:
  Prompter(const engine::Engine& engine, bool raw) : engine_(engine) {
    if (raw) return;
    const auto source = engine.file().get_string("tokenizer.chat_template");
    if (source) template_ = std::make_unique<prompt::ChatTemplate>(std::string(*source));
    if (!source) log::info("the model has no chat template; the prompt is used as it is");
  }
  bool has_template() const noexcept { return template_ != nullptr; }

  std::vector<int32_t> plain(const std::string& text) const {
    return engine_.tokenizer().encode(text);
  }

  std::vector<int32_t> chat(const Json& messages) const {
    const tokenizer::Tokenizer& tokens = engine_.tokenizer();
    const std::string bos = text_of(tokens.bos());
    const std::string text = template_->render({{"messages", messages},
                                                {"add_generation_prompt", true},
                                                {"bos_token", bos},
                                                {"eos_token", text_of(tokens.eos())}});
    // Many templates write the BOS themselves; a second one makes answers worse.
    const bool has_bos = !bos.empty() && text.starts_with(bos);
    return tokens.encode(text, {.add_special = !has_bos, .parse_special = true});
  }

 private:
  std::string text_of(tokenizer::TokenId id) const {
    return engine_.tokenizer().has(id) ? utf8::sanitized(engine_.tokenizer().text(id))
                                       : std::string();
  }

  const engine::Engine& engine_;
  std::unique_ptr<prompt::ChatTemplate> template_;
};

Json conversation_start(const std::string& system) {
  Json messages = Json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  return messages;
}

void print_now(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Json report(const engine::Engine& engine, const GenerateOptions& options, const Answer& answer,
            Clock::duration load_time) {
  Json out = {{"model", options.model.model},
              {"response", answer.text},
              {"done_reason", answer.done_reason},
              {"seed", answer.seed},
              {"total_duration", nanoseconds(load_time + answer.prompt_time + answer.answer_time)},
              {"load_duration", nanoseconds(load_time)},
              {"prompt_eval_count", answer.n_prompt},
              {"prompt_eval_duration", nanoseconds(answer.prompt_time)},
              {"eval_count", answer.tokens.size()},
              {"eval_duration", nanoseconds(answer.answer_time)},
              {"memory", memory_json(engine.memory())}};
  if (options.tokens) out["tokens"] = answer.tokens;
  if (options.sampling.n_logprobs >= 0) out["logprobs"] = answer.logprobs;
  return out;
}

std::string read_standard_input() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

void answer_once(engine::Engine& engine, const GenerateOptions& options,
                 Clock::duration load_time) {
  const std::string text = options.prompt ? *options.prompt : read_standard_input();
  const Prompter prompter(engine, options.raw);
  Json messages = conversation_start(options.system);
  messages.push_back({{"role", "user"}, {"content", utf8::sanitized(text)}});
  const std::vector<int32_t> prompt =
      prompter.has_template() ? prompter.chat(messages) : prompter.plain(text);
  const Answer answer = generate(engine, options, prompt, [&](const std::string& piece) {
    if (!options.json) print_now(piece);
  });
  if (options.json) print_now(report(engine, options, answer, load_time).dump() + "\n");
  if (!options.json && !answer.text.ends_with('\n')) print_now("\n");
}

void chat(engine::Engine& engine, const GenerateOptions& options) {
  const Prompter prompter(engine, options.raw);
  if (!prompter.has_template()) {
    throw Error(ErrorCode::kUnsupported,
                options.model.model +
                    ": has no chat template to chat with; use --prompt to let it continue a text");
  }
  const bool terminal = ::isatty(STDIN_FILENO) != 0;
  if (terminal) print_now("Write a message and press Enter. /clear starts over, /bye ends.\n");
  Json messages = conversation_start(options.system);
  for (std::string line;;) {
    if (terminal) print_now(">>> ");
    if (!std::getline(std::cin, line) || line == "/bye") break;
    if (line == "/clear") messages = conversation_start(options.system);
    if (line.empty() || line == "/clear") continue;
    messages.push_back({{"role", "user"}, {"content", utf8::sanitized(line)}});
    const Answer answer = generate(engine, options, prompter.chat(messages), print_now);
    messages.push_back({{"role", "assistant"}, {"content", answer.text}});
    print_now("\n\n");
  }
  if (terminal) print_now("\n");
}

void run(const GenerateOptions& options) {
  (void)options.sampling.checked();  // before the model is loaded
  const Clock::time_point start = Clock::now();
  engine::Engine engine(options.model.model, options.model.engine());
  const Clock::duration load_time = Clock::now() - start;
  const bool wants_chat = options.chat || (!options.prompt && ::isatty(STDIN_FILENO) != 0);
  if (wants_chat) return chat(engine, options);
  answer_once(engine, options, load_time);
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Answer a prompt, or chat");
  auto options = std::make_shared<GenerateOptions>();
  options->model.declare(*command);
  auto* prompt = command->add_option(
      "-p,--prompt", options->prompt,
      "What to answer; without it and --chat: standard input, or a chat on a terminal");
  command->add_flag("--chat", options->chat, "Chat: each line of standard input is a message")
      ->excludes(prompt);
  command->add_option("--system", options->system, "System message before the conversation");
  command->add_flag("--raw", options->raw,
                    "Continue the prompt as it is, without the model's chat template");
  command->add_option("-n,--num-predict", options->num_predict,
                      "Most tokens to write; -1: until the model ends or the context is full");
  command->add_option("--stop", options->stop, "Text that ends the answer; may be repeated");
  command->add_flag("--ignore-eos", options->ignore_eos, "Go on when the model ends its answer");
  command->add_flag("--json", options->json,
                    "Print one JSON object: the answer, counts and durations in nanoseconds");
  command->add_flag("--tokens", options->tokens,
                    "With --json: the ids of the answer's tokens, too");
  options->sampling.declare(*command);
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli
