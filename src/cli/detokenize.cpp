// billow detokenize: prints the text of token ids from the command line or standard input.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/token_text.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace billow::cli {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> ids;
  bool special = false;
};

void run(const Options& options) {
  const tokenizer::Tokenizer tokenizer =
      tokenizer::Tokenizer::load(gguf::File::open(options.model));
  std::vector<tokenizer::TokenId> ids;
  for (const std::string& words : options.ids) append_token_ids(words, tokenizer, ids);
  if (options.ids.empty()) {
    for (std::string line; std::getline(std::cin, line);) append_token_ids(line, tokenizer, ids);
  }
  print_text(tokenizer.decode(ids, {.render_special = options.special}));
}

}  // namespace

void add_detokenize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("detokenize", "Print the text of token ids");
  command->add_option("--model,-m", options->model, "GGUF file")->required();
  command->add_option("ids", options->ids, "Token ids; default: read them from standard input");
  command->add_flag("--special", options->special, "Print the texts of control tokens, too");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli
