// Splits a Go template into texts and the tokens of its actions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace billow::prompt::go {

struct Token {
  enum class Kind {
    kError,  // the last token of an invalid source; `message` has the reason
    kEnd,    // the last token
    kText,
    kLeftDelimiter,
    kRightDelimiter,
    kSpace,
    kAssign,   // =
    kDeclare,  // :=
    kPipe,
    kCharacter,  // any other character, like a comma
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
    kRawString,  // with its backquotes
  };
  Kind kind = Kind::kEnd;
  std::string_view text;
  size_t line = 1;
  size_t offset = 0;  // in the source
  std::string message;
};

// Returns all tokens of `source`; the last is kEnd or kError. The texts are views into `source`.
std::vector<Token> lex(std::string_view source);

}  // namespace billow::prompt::go
