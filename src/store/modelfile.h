// Parses and prints Modelfiles, the recipes of models. Parsing accepts several encodings. Parsing
// printed text returns the same instructions. Plain data; thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace billow::store {

enum class InstructionKind {
  kFrom,
  kAdapter,
  kDraft,
  kTemplate,
  kSystem,
  kRenderer,
  kParser,
  kRequires,
  kParameter,
  kLicense,
  kMessage,
};

struct Instruction {
  InstructionKind kind = InstructionKind::kFrom;
  std::string key;    // the parameter's name or the message's role; otherwise empty
  std::string value;  // without quotes
  size_t line = 0;    // first line in the file, from 1; 0 if not parsed from a file
};

struct Modelfile {
  std::vector<Instruction> instructions;

  // Returns the last value of the kind, or "".
  std::string_view last(InstructionKind kind) const noexcept;
  std::vector<std::string> all(InstructionKind kind) const;
  // Returns the name and value of every PARAMETER, for parameters_from_text().
  std::vector<std::pair<std::string, std::string>> parameters() const;
};

// Parses UTF-8 with or without a byte order mark, or UTF-16 with one. Invalid bytes become U+FFFD.
// Throws Error (kInvalidInput) with the line of the error: an unknown instruction, a missing
// closing quote (unexpected EOF), no FROM line and so on.
Modelfile parse_modelfile(std::string_view bytes);

// Prints one instruction per line, with quotes where needed. One kind of value cannot be printed
// correctly: text with a line that ends in three quotes.
std::string to_text(const Modelfile& modelfile);

// Returns whether `text` is a version like 0.14.0. The later numbers and the "-" and "+" suffixes
// are optional.
bool is_version(std::string_view text) noexcept;
// Returns whether `text` is the role of a message: system, user or assistant.
bool is_role(std::string_view text) noexcept;
inline constexpr std::string_view kRoleFault =
    "message role must be one of \"system\", \"user\", or \"assistant\"";
inline constexpr std::string_view kVersionFault = "requires must be a valid semver (e.g. 0.14.0)";

}  // namespace billow::store
