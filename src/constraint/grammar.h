// What an answer must look like, as a value that travels with a request, and the check that needs
// no model. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace billow::constraint {

enum class GrammarKind : uint8_t {
  kJsonObject,  // any JSON object; no text
  kJsonSchema,  // JSON that a schema accepts; the schema
  kRegex,       // text that a regular expression matches as a whole; Rust's syntax
  kLark,        // a grammar in llguidance's dialect of Lark, an EBNF
  kGbnf,        // a grammar in llama.cpp's notation
};

// "json_object", "json_schema", "regex", "lark" or "gbnf".
const char* grammar_kind_name(GrammarKind kind) noexcept;
std::optional<GrammarKind> find_grammar_kind(std::string_view name) noexcept;

inline constexpr size_t kMaxGrammarBytes = size_t{1} << 20;
inline constexpr size_t kMaxMarkerBytes = 1024;  // of starts_after and opens_with

struct Grammar {
  GrammarKind kind = GrammarKind::kJsonObject;
  std::string text = {};
  bool operator==(const Grammar&) const = default;
};

// A grammar, and where in an answer it begins.
struct Constraint {
  Grammar grammar = {};
  // The grammar begins with the token after the one that completes this text; what comes before is
  // free, but no end token. Blanks right behind it are free, too. Empty: it begins with the answer.
  std::string starts_after = {};
  // With starts_after: an answer that does not begin with this text is held to the grammar from
  // its beginning. For models that think, or do not, as they like. Empty: the answer begins free.
  std::string opens_with = {};
  // With starts_after: after so many free tokens that text is written for the model; 0: never.
  size_t starts_within = 0;
  // With starts_after: the answer may end before the grammar has begun.
  bool may_not_start = false;
  bool operator==(const Constraint&) const = default;
};

// Whether the grammar can be held. Throws Error with one line that names what cannot:
// kInvalidInput, kUnsupported for what Billow does not know, or kTooLarge beyond a limit.
void check(const Grammar& grammar);
// The same, and whether the other fields make sense.
void check(const Constraint& constraint);
// The other fields alone.
void check_start(const Constraint& constraint);

}  // namespace billow::constraint
