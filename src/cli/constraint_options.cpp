#include "cli/constraint_options.h"

#include <CLI/CLI.hpp>
#include <cstddef>
#include <span>

#include "base/error.h"
#include "base/regular_file.h"

namespace billow::cli {
namespace {

using constraint::Grammar;
using constraint::GrammarKind;

std::string text_of(const std::string& path) {
  const RegularFile file(path);
  if (file.size_bytes() > constraint::kMaxGrammarBytes)
    throw Error(ErrorCode::kTooLarge, path + ": " + std::to_string(file.size_bytes()) +
                                          " bytes are too many for a grammar (at most " +
                                          std::to_string(constraint::kMaxGrammarBytes) + ")");
  std::string text(file.size_bytes(), '\0');
  text.resize(file.read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

// Guesses the kind of a grammar: GBNF defines rules with "::=", which Lark does not have.
GrammarKind kind_of(const std::string& text) {
  return text.find("::=") != std::string::npos ? GrammarKind::kGbnf : GrammarKind::kLark;
}

}  // namespace

void ConstraintFlags::declare(CLI::App& command) {
  const char* group = "Form of the answer";
  auto* schema = command.add_option("--json-schema", json_schema,
                                    "File with a JSON Schema; the answer is JSON that matches it");
  auto* rules = command.add_option("--grammar", grammar,
                                   "File with a grammar in GBNF or Lark that the answer follows");
  auto* pattern = command.add_option(
      "--regex", regex, "Regular expression that the whole answer matches; Rust's syntax");
  auto* any = command.add_flag("--json-mode", json_mode, "The answer is a JSON object");
  auto* marker =
      command.add_option("--constrain-behind", behind,
                         "Apply the form only to the answer after this text, such as </think>");
  rules->excludes(schema);
  pattern->excludes(schema)->excludes(rules);
  any->excludes(schema)->excludes(rules)->excludes(pattern);
  for (CLI::Option* option : {schema, rules, pattern, any, marker}) option->group(group);
}

std::optional<constraint::Constraint> ConstraintFlags::constraint() const {
  constraint::Constraint out;
  out.starts_after = behind;
  std::string source = "--regex";
  if (!json_schema.empty()) {
    source = json_schema;
    out.grammar = {GrammarKind::kJsonSchema, text_of(json_schema)};
  } else if (!grammar.empty()) {
    source = grammar;
    const std::string text = text_of(grammar);
    out.grammar = {kind_of(text), text};
  } else if (!regex.empty()) {
    out.grammar = {GrammarKind::kRegex, regex};
  } else if (!json_mode) {
    if (behind.empty()) return std::nullopt;
    throw Error(ErrorCode::kInvalidInput,
                "--constrain-behind needs --json-schema, --grammar, --regex or --json-mode");
  }
  try {
    constraint::check(out);
  } catch (const Error& error) {
    throw Error(error.code(), source + ": " + error.what());
  }
  return out;
}

}  // namespace billow::cli
