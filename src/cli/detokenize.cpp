// billow detokenize: the text of token ids, from the command line or standard input.
#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace billow::cli {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> ids;
  bool special = false;
};

tokenizer::TokenId parse_id(std::string_view word, const tokenizer::Tokenizer& tokenizer) {
  tokenizer::TokenId id = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
  const bool is_number = error == std::errc() && end == word.data() + word.size();
  if (is_number && tokenizer.has(id)) return id;
  throw Error(ErrorCode::kInvalidInput, "'" + std::string(word) + "' is not a token id (0 to " +
                                            std::to_string(tokenizer.n_tokens() - 1) + ")");
}

// Appends the ids of `words`, which spaces, commas or line ends separate; so `[1, 2]` works too.
void append_ids(std::string_view words, const tokenizer::Tokenizer& tokenizer,
                std::vector<tokenizer::TokenId>& ids) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  while (true) {
    const size_t begin = words.find_first_not_of(kBetween);
    if (begin == std::string_view::npos) return;
    words.remove_prefix(begin);
    const std::string_view word = words.substr(0, words.find_first_of(kBetween));
    ids.push_back(parse_id(word, tokenizer));
    words.remove_prefix(word.size());
  }
}

void run(const Options& options) {
  const tokenizer::Tokenizer tokenizer =
      tokenizer::Tokenizer::load(gguf::File::open(options.model));
  std::vector<tokenizer::TokenId> ids;
  for (const std::string& words : options.ids) append_ids(words, tokenizer, ids);
  if (options.ids.empty()) {
    for (std::string line; std::getline(std::cin, line);) append_ids(line, tokenizer, ids);
  }
  std::cout << tokenizer.decode(ids, {.render_special = options.special});
}

}  // namespace

void add_detokenize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("detokenize", "Print the text of token ids");
  command->add_option("--model,-m", options->model, "GGUF file")->required();
  command->add_option("ids", options->ids,
                      "Token ids; without any, they are read from standard input");
  command->add_flag("--special", options->special, "Print control tokens as their texts");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli
