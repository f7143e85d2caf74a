// A small vocabulary for tests: a token for each byte, some words and pieces of JSON, an end token
// and a control token.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/vocabulary.h"

namespace billow::constraint {

struct SampleTokens {
  std::vector<std::string> texts;
  std::array<std::vector<int32_t>, 256> by_first_byte;
  int32_t control = 0;
  int32_t end = 0;

  SampleTokens() {
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    for (const char* piece :
         {"{\"",      "\":",     "\": ",  "\", \"", "\"}",  " {",   "},",   "[]",
          "{}",       "true",    "false", "null",   " \"",  "name", "age",  "city",
          "hello",    " world",  "12",    "345",    "0.",   "\n",   "\n\n", "  ",
          "</think>", "<think>", "ab",    "abc",    "abcd", "aa",   "bc"})
      texts.emplace_back(piece);
    control = static_cast<int32_t>(texts.size());
    texts.emplace_back();
    end = static_cast<int32_t>(texts.size());
    texts.emplace_back();
    for (size_t i = 0; i < texts.size(); ++i)
      if (!texts[i].empty())
        by_first_byte[static_cast<unsigned char>(texts[i].front())].push_back(
            static_cast<int32_t>(i));
  }

  // Returns the text of a token.
  std::string text(int32_t token) const {
    return token == control ? "<|control|>" : texts[static_cast<size_t>(token)];
  }

  // Prefers the longest token at each position, like some tokenizers.
  std::vector<int32_t> encode(std::string_view text) const {
    std::vector<int32_t> tokens;
    while (!text.empty()) {
      int32_t best = static_cast<unsigned char>(text.front());
      size_t n_best = 1;
      for (const int32_t token : by_first_byte[static_cast<unsigned char>(text.front())]) {
        const std::string& piece = texts[static_cast<size_t>(token)];
        if (piece.size() <= n_best || !text.starts_with(piece)) continue;
        best = token;
        n_best = piece.size();
      }
      tokens.push_back(best);
      text.remove_prefix(n_best);
    }
    return tokens;
  }

  std::shared_ptr<const Vocabulary> vocabulary() const {
    const auto copy = std::make_shared<const SampleTokens>(*this);
    TokenTexts tokens;
    tokens.texts.assign(copy->texts.begin(), copy->texts.end());
    tokens.ends = {end};
    tokens.encode = [copy](std::string_view text) { return copy->encode(text); };
    tokens.encode_special = tokens.encode;
    return std::make_shared<const Vocabulary>(std::move(tokens));
  }
};

}  // namespace billow::constraint
