// billow run: sends a prompt to a model of the server, or starts a session with it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/go_text.h"
#include "base/json.h"
#include "cli/client/command_line.h"
#include "cli/client/conversation.h"
#include "cli/client/create.h"
#include "cli/client/create_plan.h"
#include "cli/client/loading_line.h"
#include "cli/client/prompt_files.h"
#include "cli/client/transfer.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_checks.h"
#include "registry/web_file.h"

namespace billow::cli {
namespace {

struct Options {
  SessionSettings session;
  bool no_word_wrap = false;
  bool insecure = false;  // allow registries without TLS
  std::string truncate;   // "", "true" or "false"
  int dimensions = 0;
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Returns the prompt: the text on standard input, then the words of the command line.
std::string prompt_text(std::vector<std::string> words) {
  if (::isatty(STDIN_FILENO) == 0) {
    std::string piped{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
    if (!piped.empty()) words.insert(words.begin(), std::move(piped));
  }
  return joined(words);
}

// Returns the response of /api/show for a model. If the server does not have the model, the server
// pulls it.
Json shown_model(ApiClient& client, const std::string& model, bool insecure) {
  try {
    return client.post("/api/show", {{"model", model}});
  } catch (const ApiError& error) {
    if (error.status() != 404) throw;
  }
  try {
    pull_model(client, model, insecure);
  } catch (const ApiError& error) {
    if (!error.said().ends_with("file does not exist")) throw;
    throw Error(
        ErrorCode::kNotFound,
        "model '" + model +
            "' not found, neither on the server nor in its registry; to create it from a GGUF "
            "file, write \"FROM ./FILE.gguf\" into a Modelfile and run 'billow create " +
            model + "'");
  }
  return client.post("/api/show", {{"model", model}});
}

void embed(ApiClient& client, const std::string& model, const Options& options,
           const std::string& text) {
  if (text.empty()) {
    throw Error(
        ErrorCode::kInvalidInput,
        "embedding models require input text. Usage: billow run " + model + " \"your text here\"");
  }
  Json request = {{"model", model}, {"input", text}};
  if (!options.truncate.empty()) request["truncate"] = *go_bool(options.truncate);
  if (options.dimensions > 0) request["dimensions"] = options.dimensions;
  if (!options.session.keep_alive.empty()) {
    request["keep_alive"] = keep_alive_json(options.session.keep_alive);
  }
  const Json reply = [&] {
    const LoadingLine waiting(client.endpoint());
    return client.post("/api/embed", request);
  }();
  if (!reply.is_object() || !reply.contains("embeddings") || reply["embeddings"].empty()) {
    throw Error(ErrorCode::kInvalidInput, "the server sent no embedding");
  }
  print_now(reply["embeddings"][0].dump() + "\n");
}

void generate(ApiClient& client, const std::string& model, const Options& options,
              const ModelFacts& facts, std::string text) {
  const SessionSettings& settings = options.session;
  Json request = {{"model", model}};
  if (facts.takes_files()) {
    PromptFiles files = take_files(text);
    std::fputs(files.notes.c_str(), stderr);
    text = std::move(files.text);
    if (!files.contents.empty()) request["images"] = files.contents;
  }
  request["prompt"] = text;
  if (Json format = format_json(settings.format); !format.is_null()) request["format"] = format;
  if (Json think = think_json(settings.think, facts); !think.is_null()) request["think"] = think;
  if (!settings.keep_alive.empty()) request["keep_alive"] = keep_alive_json(settings.keep_alive);
  const ShownAnswer answer = show_answer(client, "/api/generate", request, settings);
  if (answer.interrupted) end_with(exit_status_of(SIGINT));
}

void chat(ApiClient& client, const std::string& model, const Options& options,
          const Json& show_reply) {
  // The editor comes first, so that it receives text that is typed while the model is loading.
  const std::unique_ptr<LineEditor> editor = session_line_editor();
  load_model(client, model, options.session);
  print_text(opening_text(show_reply));
  Session session(model, options.session, model_facts(show_reply));
  converse(client, session, *editor);
}

void check(const Options& options) {
  const SessionSettings& settings = options.session;
  if (!settings.think.empty() && !is_think_value(settings.think)) {
    refuse_usage("invalid value for --think: \"" + settings.think +
                 "\" (must be true, false, high, medium, low, or max)");
  }
  if (!options.truncate.empty() && !go_bool(options.truncate))
    refuse_usage("invalid value for --truncate: \"" + options.truncate +
                 "\" (must be true or false)");
  if (options.dimensions < 0) refuse_usage("--dimensions must not be negative");
  as_usage([&] {
    if (!settings.keep_alive.empty()) (void)keep_alive_json(settings.keep_alive);
    (void)format_json(settings.format);
  });
}

// Returns the server's model name for a word of the command line: a name, a path or an address.
std::string kept_model(ApiClient& client, const std::string& word) {
  check_address(word);
  if (registry::is_file_address(word)) return keep_web_model(client, word);
  return is_model_path(word) ? keep_model(client, word) : word;
}

void run(Options options, const std::vector<std::string>& words) {
  options.session.wraps_words = !options.no_word_wrap;
  check(options);
  const bool is_session =
      words.size() == 1 && ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  const std::string text = prompt_text({words.begin() + 1, words.end()});
  const auto client = connected_client();
  const std::string model = kept_model(*client, words[0]);
  const Json reply = shown_model(*client, model, options.insecure);
  const ModelFacts facts = model_facts(reply);
  if (facts.can("embedding")) return embed(*client, model, options, text);
  const std::string warnings =
      think_warning(model, options.session.think, facts) + template_warning(model, facts);
  std::fputs(warnings.c_str(), stderr);
  if (is_session) return chat(*client, model, options, reply);
  generate(*client, model, options, facts, text);
}

}  // namespace

void add_run(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = add_client_command(
      app,
      {.name = "run",
       .description =
           "Send a prompt to a model, or chat with it. MODEL is a model of the server or of its "
           "registry, a file (./model.gguf), a folder, or an address (https://HOST/model.gguf)",
       .arguments = "MODEL [PROMPT...]",
       .min = 1,
       .variables = {kHostVariable,
                     {"OLLAMA_NOHISTORY", "Do not store typed text in ~/.ollama/history"}}},
      [options](const std::vector<std::string>& words) { run(*options, words); });
  SessionSettings& session = options->session;
  command.add_option("--keepalive", session.keep_alive,
                     "How long the model stays loaded afterwards: 5m, 1h30m; -1: forever");
  command.add_flag("--verbose", session.verbose, "Show how long the answer took");
  command.add_flag("--insecure", options->insecure,
                   "Allow pulling a missing model from a registry without TLS");
  command.add_flag("--nowordwrap", options->no_word_wrap, "Do not break lines between words");
  command.add_option("--format", session.format, "Format of the answer: json, or a JSON schema");
  command.add_flag(
      "--think", session.think,
      "Let the model think first; --think=VALUE takes true, false, low, medium, high or max");
  command.add_flag("--hidethinking", session.hides_thinking, "Do not show what the model thinks");
  command.add_flag("--truncate", options->truncate,
                   "Embedding models: cut input that is too long; --truncate=false refuses it");
  command.add_option("--dimensions", options->dimensions,
                     "Embedding models: how many values to keep of an embedding");
}

}  // namespace billow::cli
