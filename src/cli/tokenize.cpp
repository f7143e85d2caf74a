// billow tokenize: the token ids of a text on standard input.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/utf8.h"
#include "cli/command.h"
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

// `bytes` on one line: control characters and what is not UTF-8 are escaped.
std::string visible(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const utf8::CodePoint point = utf8::decode(bytes);
    const std::string_view character = bytes.substr(0, point.n_bytes);
    bytes.remove_prefix(point.n_bytes);
    if (character == "\n") {
      out += "\\n";
    } else if (character == "\t") {
      out += "\\t";
    } else if (character == "\\") {
      out += "\\\\";
    } else if (point.valid && point.value >= 0x20 && point.value != 0x7F) {
      out += character;
    } else {
      char escape[5];
      std::snprintf(escape, sizeof escape, "\\x%02X", static_cast<unsigned char>(character[0]));
      out += escape;
    }
  }
  return out;
}

// A string if the piece is whole UTF-8, else an array of its bytes.
Json json_piece(std::string_view piece) {
  if (utf8::is_valid(piece)) return std::string(piece);
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

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
      std::cout << ids[i] << '\t' << visible(tokenizer.piece(ids[i], true)) << '\n';
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
  command->add_flag("--no-special", options->no_special, "Add no BOS, EOS, CLS or SEP");
  command->add_flag("--no-parse-special", options->no_parse_special,
                    "Control tokens in the text are ordinary text");
  command->add_flag("--pieces", options->pieces, "One id and its text per line");
  command->add_flag("--json", options->json, "A JSON array");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli
