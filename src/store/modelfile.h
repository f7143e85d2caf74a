// Modelfiles, the recipes of models: read in any of their encodings, printed so that what is
// printed is read again as the same. Plain data; any thread.
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
  std::string key;    // the parameter's name, or the message's role; else empty
  std::string value;  // without its quotes
  size_t line = 0;    // where it begins in its file, from 1; 0 when it was not read
};

struct Modelfile {
  std::vector<Instruction> instructions;

  // The last value of the kind, or "".
  std::string_view last(InstructionKind kind) const noexcept;
  std::vector<std::string> all(InstructionKind kind) const;
  // Name and value of every PARAMETER, for parameters_from_text.
  std::vector<std::pair<std::string, std::string>> parameters() const;
};

// Reads UTF-8, with or without a byte order mark, or UTF-16 with one; bytes that are no characters
// become U+FFFD. Throws Error (kInvalidInput) with the line of what is wrong: an unknown
// instruction, a quote that does not end (unexpected EOF), no FROM line ...
Modelfile parse_modelfile(std::string_view bytes);

// One instruction a line, values quoted where they need it. A value that is read as something else
// however it is quoted cannot be: it has a line that ends in three quotes.
std::string to_text(const Modelfile& modelfile);

// Whether `text` is a version like 0.14.0, with or without its later numbers, "-" and "+" endings.
bool is_version(std::string_view text) noexcept;
// Of a message: system, user or assistant.
bool is_role(std::string_view text) noexcept;
inline constexpr std::string_view kRoleFault =
    "message role must be one of \"system\", \"user\", or \"assistant\"";
inline constexpr std::string_view kVersionFault = "requires must be a valid semver (e.g. 0.14.0)";

}  // namespace billow::store
