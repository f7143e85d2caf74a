// Cuts a Go template into texts and the tokens of its actions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace billow::prompt::go {

struct Token {
  enum class Kind {
    kError,  // the last token, where the source is wrong: `message` says how
    kEnd,    // the last token
    kText,
    kLeftDelimiter,
    kRightDelimiter,
    kSpace,
    kAssign,   // =
    kDeclare,  // :=
    kPipe,
    kCharacter,  // another one, as a comma
    kLeftParenthesis,
    kRightParenthesis,
    kDot,
    kField,     // with its dot
    kVariable,  // with its $
    kIdentifier,
    kKeyword,
    kBool,
    kNil,
    kNumber,
    kRune,
    kString,     // with its quotes
    kRawString,  // likewise
  };
  Kind kind = Kind::kEnd;
  std::string_view text;
  size_t line = 1;
  size_t offset = 0;  // in the source
  std::string message;
};

// All tokens of `source`, the last being kEnd or kError. The texts are views into it.
std::vector<Token> lex(std::string_view source);

}  // namespace billow::prompt::go
