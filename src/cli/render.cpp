// billow render: prints the text that a chat template makes of a conversation.
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "api/json_reader.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/console.h"
#include "gguf/file.h"
#include "prompt/chat_template.h"

namespace billow::cli {
namespace {

struct Options {
  std::string template_file;
  std::string model;
  std::string input = "-";
};

std::string read_all(std::istream& stream) {
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::string read_file(const std::string& path) {
  if (path == "-") return read_all(std::cin);
  std::ifstream file(path, std::ios::binary);
  std::string text = read_all(file);
  if (!file.is_open() || file.bad()) {
    throw Error(ErrorCode::kNotFound, path + ": cannot be read");
  }
  return text;
}

// Reads the template's variables: an object, or an array of messages only.
Json read_input(const std::string& path) {
  Json input;
  const std::string name = path == "-" ? "standard input" : path;
  try {
    input = Json::parse(read_file(path), [&](int depth, Json::parse_event_t, const Json&) {
      if (depth > static_cast<int>(api::kMaxJsonDepth))
        throw Error(ErrorCode::kInvalidInput, name + ": the JSON is nested too deep");
      return true;
    });
  } catch (const Json::parse_error& error) {
    throw Error(ErrorCode::kInvalidInput,
                name + ": not JSON at byte " + std::to_string(error.byte) +
                    "; give an object of variables or an array of messages");
  }
  if (input.is_array()) input = Json{{"messages", std::move(input)}};
  if (input.is_object() && !input.contains("add_generation_prompt")) {
    input["add_generation_prompt"] = true;
  }
  return input;
}

// Sets `variable` to the text of the token whose id the metadata names, unless the input has it
// already.
void add_token(const gguf::File& file, const std::string& id_key, const std::string& variable,
               Json& input) {
  if (!input.is_object() || input.contains(variable)) return;
  const auto id = file.get_uint(id_key);
  const gguf::Array* tokens = file.get_string_array("tokenizer.ggml.tokens");
  if (!id || tokens == nullptr || *id >= tokens->strings.size()) return;
  input[variable] = std::string(tokens->strings[*id]);
}

std::string template_of(const gguf::File& file, Json& input) {
  add_token(file, "tokenizer.ggml.bos_token_id", "bos_token", input);
  add_token(file, "tokenizer.ggml.eos_token_id", "eos_token", input);
  const auto source = file.get_string("tokenizer.chat_template");
  if (!source) {
    throw Error(ErrorCode::kNotFound,
                file.path() + ": has no chat template (tokenizer.chat_template); give --template");
  }
  return std::string(*source);
}

void run(const Options& options) {
  Json input = read_input(options.input);
  const std::string source = options.model.empty()
                                 ? read_file(options.template_file)
                                 : template_of(gguf::File::open(options.model), input);
  const std::string text = prompt::ChatTemplate(source).render(input);
  print_text(text);
}

}  // namespace

void add_render(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("render", "Print what a chat template makes of a conversation");
  CLI::Option_group* source = command->add_option_group("template");
  source->add_option("--template,-t", options->template_file, "File with a Jinja template");
  source->add_option("--model,-m", options->model, "GGUF file with a chat template");
  source->require_option(1);
  command
      ->add_option(
          "--input,-i", options->input,
          "File with JSON: the template's variables, or only the messages; -: standard input")
      ->capture_default_str();
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli
