// Constraint: the form that an answer must have, as a value that a request carries. Also the checks
// that need no model. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace billow::constraint {

enum class GrammarKind : uint8_t {
  kJsonObject,  // any JSON object; `text` is empty
  kJsonSchema,  // JSON that matches the JSON Schema in `text`
  kRegex,       // text that matches a regular expression (Rust's syntax) as a whole
  kLark,        // a grammar in llguidance's dialect of Lark, an EBNF
  kGbnf,        // a grammar in llama.cpp's notation
};

// Returns "json_object", "json_schema", "regex", "lark" or "gbnf".
const char* grammar_kind_name(GrammarKind kind) noexcept;
std::optional<GrammarKind> find_grammar_kind(std::string_view name) noexcept;

inline constexpr size_t kMaxGrammarBytes = size_t{1} << 20;
// Of starts_after, forced_next, opens_with and repeats_after.
inline constexpr size_t kMaxMarkerBytes = 1024;

struct Grammar {
  GrammarKind kind = GrammarKind::kJsonObject;
  std::string text = {};
  bool operator==(const Grammar&) const = default;
};

// A grammar, and the place in an answer where it begins.
struct Constraint {
  Grammar grammar = {};
  // Marker: the grammar begins with the token after the one that completes this text. Tokens before
  // the marker are free, except end tokens. A few blanks directly after the marker are free, too.
  // Empty: the grammar begins with the answer.
  std::string starts_after = {};
  // With starts_after: text that is forced directly after the marker, before the grammar. For
  // markers that models write in several ways.
  std::string forced_next = {};
  // With starts_after: an answer that does not begin with this text must match the grammar from the
  // answer's first token. For models that think only sometimes. Empty: free text comes first.
  std::string opens_with = {};
  // With starts_after: max free tokens. After them, the marker and forced_next are forced. 0: no
  // limit.
  size_t starts_within = 0;
  // With starts_after: the answer may end before the grammar has begun.
  bool may_not_start = false;
  // With may_not_start: text that follows the text of the grammar. A few blanks may come before it.
  // Then tokens are free again, and the marker may start the grammar again. The answer may also end
  // in place of this text. Empty: the answer ends when the grammar can only end.
  std::string repeats_after = {};
  bool operator==(const Constraint&) const = default;
};

// Checks whether Billow can enforce the grammar. Throws Error with one line that names the problem:
// kInvalidInput, kUnsupported for features that Billow does not have, or kTooLarge above a limit.
void check(const Grammar& grammar);
// Checks the grammar and the other fields.
void check(const Constraint& constraint);
// Checks only the other fields.
void check_start(const Constraint& constraint);

}  // namespace billow::constraint
