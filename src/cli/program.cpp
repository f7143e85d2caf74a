#include "cli/program.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/suggestion.h"
#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/option_checks.h"
#include "cli/terminal_line.h"
#include "cli/terminal_text.h"
#include "cli/version.h"

namespace billow::cli {
namespace {

constexpr const char* kStart = "Start here";
constexpr const char* kModels = "Models of a server";
constexpr const char* kTexts = "Embeddings of a server";
constexpr const char* kFleet = "Several servers and users";
constexpr const char* kLocal = "Without a server, from a GGUF file";
constexpr const char* kFiles = "Model files";
constexpr const char* kLook = "Help and diagnosis";
constexpr const char* kHidden = "";  // not in the help

struct CommandRow {
  const char* name;
  void (*add)(CLI::App& app);
  const char* group;
  std::vector<const char*> examples = {};
};

// In the order of the help.
const std::vector<CommandRow>& command_rows() {
  static const std::vector<CommandRow> rows = {
      {"serve",
       add_serve,
       kStart,
       {"billow serve", "billow serve --host 0.0.0.0:11434 --memory 24G",
        "billow serve --config /etc/billow/billow.toml"}},
      {"run",
       add_run,
       kStart,
       {"billow run smollm2", "billow run smollm2 \"Why is the sky blue?\"",
        "billow run smollm2 \"Summarise this file\" < notes.txt"}},
      {"pull",
       add_pull,
       kModels,
       {"billow pull smollm2", "billow pull hf.co/USER/MODEL-GGUF:Q4_K_M"}},
      {"push", add_push, kModels, {"billow push registry.example.com/me/mymodel"}},
      {"create", add_create, kModels, {"billow create mymodel -f Modelfile"}},
      {"show", add_show, kModels, {"billow show smollm2", "billow show smollm2 --modelfile"}},
      {"list", add_list, kModels, {"billow list", "billow list smol"}},
      {"ps", add_ps, kModels, {"billow ps"}},
      {"cp", add_cp, kModels, {"billow cp smollm2 mymodel"}},
      {"rm", add_rm, kModels, {"billow rm mymodel"}},
      {"stop", add_stop, kModels, {"billow stop smollm2"}},
      {"embed",
       add_embed,
       kTexts,
       {"billow embed --model all-minilm --in texts.jsonl --out vectors.npy"}},
      {"fingerprint", add_fingerprint, kTexts, {"billow fingerprint --model all-minilm"}},
      {"fleet",
       add_fleet,
       kFleet,
       {"billow fleet config --hosts fleet.toml > /etc/haproxy/haproxy.cfg",
        "billow fleet check --hosts fleet.toml", "billow fleet status --hosts fleet.toml --watch"}},
      {"keys",
       add_keys,
       kFleet,
       {"billow keys add ann --max-requests 4 --file keys.toml",
        "billow keys list --file keys.toml", "billow keys revoke ann --file keys.toml"}},
      {"generate",
       add_generate,
       kLocal,
       {"billow generate --model model.gguf --prompt \"Why is the sky blue?\"",
        "billow generate --model model.gguf --chat"}},
      {"bench", add_bench, kLocal, {"billow bench --model model.gguf"}},
      {"plan", add_plan, kLocal, {"billow plan --model model.gguf --prompt-tokens 4000"}},
      {"perplexity",
       add_perplexity,
       kLocal,
       {"billow perplexity --model model.gguf --file text.txt"}},
      {"logits", add_logits, kLocal, {}},
      {"render", add_render, kLocal, {"billow render --model model.gguf --input messages.json"}},
      {"tokenize", add_tokenize, kLocal, {"billow tokenize --model model.gguf < text.txt"}},
      {"detokenize", add_detokenize, kLocal, {}},
      {"inspect", add_inspect, kFiles, {"billow inspect model.gguf"}},
      {"convert", add_convert, kFiles, {}},
      {"quantize", add_quantize, kFiles, {}},
      {"imatrix", add_imatrix, kFiles, {}},
      {"doctor", add_doctor, kLook, {"billow doctor", "billow doctor --json"}},
      {"trace", add_trace, kLook, {}},
      {"help", add_help, kLook, {"billow help serve"}},
      {"version", add_version, kLook, {}},
      {"runner", add_runner, kHidden},
      {"with-parent", add_with_parent, kHidden},
      {"__complete", add_complete, kHidden},
      {"__man", add_manual, kHidden},
  };
  return rows;
}

std::string examples_text(const std::vector<const char*>& examples) {
  if (examples.empty()) return "";
  std::string text = "Examples:";
  for (const char* example : examples) text += std::string("\n  ") + example;
  return text;
}

// The command that was parsed, or the program itself.
const CLI::App& parsed_command(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : parsed_command(*parsed.front());
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

std::string see_help(const CLI::App& command) {
  return " See '" + full_name(command) + " --help'.";
}

std::string with_end(std::string sentence) {
  return sentence.ends_with('?') || sentence.ends_with('.') ? sentence : sentence + ".";
}

std::string unknown_option(const CLI::App& command, const std::string& typed) {
  return "unknown option '" + typed + "'" + did_you_mean(typed, option_names(command));
}

// An unknown option comes first: it is often the cause of the other error.
std::string message_of(const CLI::App& command, const CLI::ParseError& error) {
  const std::vector<std::string> extras = command.remaining();
  const auto option = std::ranges::find_if(
      extras, [](const std::string& extra) { return extra.size() > 1 && extra[0] == '-'; });
  if (option != extras.end()) return unknown_option(command, option->substr(0, option->find('=')));
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extras.empty())
    return "unexpected argument '" + extras.front() + "'";
  return error.what();
}

// The words after the program's name, with the settings of a configuration file.
std::vector<std::string> words_of(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const CLI::App* command = find_command(app, words.front());
  const bool asks_for_help = std::ranges::any_of(
      words, [](const std::string& word) { return word == "-h" || word == "--help"; });
  if (command != nullptr && command->get_name() == "serve" && !asks_for_help)
    add_config(*command, words);
  return words;
}

}  // namespace

int report_error(const std::string& message) {
  const char* head =
      shows_colours(STDERR_FILENO) ? "\033[1;31mbillow: error:\033[0m" : "billow: error:";
  const std::string shown = ::isatty(STDERR_FILENO) != 0 ? terminal_text(message) : message;
  std::fflush(stdout);
  std::fprintf(stderr, "%s %s\n", head, shown.c_str());
  return kFailed;
}

int report_usage(const CLI::App& command, const std::string& message) {
  report_error(with_end(message) + see_help(command));
  return kWrongUsage;
}

std::vector<const CLI::Option*> shown_options(const CLI::App& command) {
  std::vector<const CLI::Option*> shown;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty()) shown.push_back(option);
  // An option group is a subcommand without a name.
  for (const CLI::App* part : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (!part->get_name().empty() || part->get_group().empty()) continue;
    const std::vector<const CLI::Option*> options = shown_options(*part);
    shown.insert(shown.end(), options.begin(), options.end());
  }
  return shown;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : shown_options(command)) {
    if (option->get_positional()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    names.push_back(command->get_name());
    for (const std::string& alias : command->get_aliases()) names.push_back(alias);
  }
  return names;
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (command->check_name(name)) return command;
  return nullptr;
}

void declare_commands(CLI::App& app) {
  app.set_version_flag("-v,--version", version_text, "Print version, compiler and kernels");
  for (const CommandRow& row : command_rows()) {
    row.add(app);
    CLI::App* command = app.get_subcommand(row.name);
    command->group(row.group);
    const std::string examples = examples_text(row.examples);
    const std::string footer = command->get_footer();
    const char* between = footer.empty() || examples.empty() ? "" : "\n\n";
    command->footer(std::string(examples).append(between).append(footer));
  }
  refuse_wrong_counts(app);
  app.footer(
      "Examples:\n"
      "  billow serve                     start the server; its web page is at /ui/\n"
      "  billow pull smollm2              fetch a model\n"
      "  billow run smollm2               chat with it\n"
      "  billow help serve                show the options of a command\n\n"
      "Exit status: 0 after success, 1 after an error, 2 for wrong usage, 130 after Ctrl-C.");
}

int run_program(int argc, char** argv) {
  CLI::App app("Billow serves language and embedding models from GGUF files on CPUs.", "billow");
  app.require_subcommand(1);
  declare_commands(app);
  if (argc < 2) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  }
  const std::string_view first = argv[1];
  if (!first.starts_with('-') && find_command(app, std::string(first)) == nullptr) {
    return report_usage(app, "unknown command '" + std::string(first) + "'" +
                                 did_you_mean(first, command_names(app)));
  }
  try {
    std::vector<std::string> words = words_of(app, argc, argv);
    std::ranges::reverse(words);  // as the library wants them
    app.parse(std::move(words));
  } catch (const CLI::RuntimeError& ended) {
    return ended.get_exit_code();  // a command that was interrupted, after its results
  } catch (const CLI::ParseError& error) {
    // Help and version are "errors" with status 0 to the library.
    if (error.get_exit_code() == 0) return app.exit(error);
    const CLI::App& command = parsed_command(app);
    if (&command == &app && first.starts_with('-'))
      return report_usage(app, unknown_option(app, std::string(first)));
    if (&command == &app)  // the configuration file, which is read before the words
      return report_usage(*find_command(app, std::string(first)), error.what());
    return report_usage(command, message_of(command, error));
  }
  return 0;
}

}  // namespace billow::cli
