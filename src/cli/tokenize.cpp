// billow tokenize: prints the token ids of the text on standard input.
#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/command.h"
#include "cli/token_text.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace billow::cli {
namespace {

struct Options {
  std::string model;
  bool no_special = false;
  bool no_parse_special = false;
  bool pieces = false;
  bool json = false;
};

void print_json(const tokenizer::Tokenizer& tokenizer, const std::vector<tokenizer::TokenId>& ids,
                bool pieces) {
  Json list = Json::array();
  for (const tokenizer::TokenId id : ids) {
    if (pieces) {
      list.push_back(Json{{"id", id}, {"piece", json_piece(tokenizer.piece(id, true))}});
    } else {
      list.push_back(id);
    }
  }
  std::cout << list.dump() << '\n';
}

void print_text(const tokenizer::Tokenizer& tokenizer, const std::vector<tokenizer::TokenId>& ids,
                bool pieces) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (pieces) {
      std::cout << ids[i] << '\t' << visible_text(tokenizer.piece(ids[i], true)) << '\n';
    } else {
      std::cout << (i == 0 ? "" : " ") << ids[i];
    }
  }
  if (!pieces) std::cout << '\n';
}

void run(const Options& options) {
  const tokenizer::Tokenizer tokenizer =
      tokenizer::Tokenizer::load(gguf::File::open(options.model));
  const std::string text((std::istreambuf_iterator<char>(std::cin)),
                         std::istreambuf_iterator<char>());
  const std::vector<tokenizer::TokenId> ids = tokenizer.encode(
      text, {.add_special = !options.no_special, .parse_special = !options.no_parse_special});
  if (options.json) {
    print_json(tokenizer, ids, options.pieces);
  } else {
    print_text(tokenizer, ids, options.pieces);
  }
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("tokenize", "Print the token ids of the text on standard input");
  command->add_option("--model,-m", options->model, "GGUF file")->required();
  command->add_flag("--no-special", options->no_special, "Do not add BOS, EOS, CLS or SEP");
  command->add_flag("--no-parse-special", options->no_parse_special,
                    "Treat control tokens in the text as ordinary text");
  command->add_flag("--pieces", options->pieces, "Print one id and its text per line");
  command->add_flag("--json", options->json, "Print a JSON array");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli
