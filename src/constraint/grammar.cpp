#include "constraint/grammar.h"

#include "constraint/bridge.h"

namespace billow::constraint {
namespace {

struct Name {
  GrammarKind kind;
  const char* name;
};
constexpr Name kNames[] = {
    {GrammarKind::kJsonObject, "json_object"},
    {GrammarKind::kJsonSchema, "json_schema"},
    {GrammarKind::kRegex, "regex"},
    {GrammarKind::kLark, "lark"},
    {GrammarKind::kGbnf, "gbnf"},
};

}  // namespace

const char* grammar_kind_name(GrammarKind kind) noexcept {
  return kNames[static_cast<size_t>(kind)].name;
}

std::optional<GrammarKind> find_grammar_kind(std::string_view name) noexcept {
  for (const Name& row : kNames)
    if (name == row.name) return row.kind;
  return std::nullopt;
}

void check(const Grammar& grammar) {
  const billow_grammar raw = bridge_grammar(grammar);
  BridgeText message;
  const billow_status status = billow_grammar_check(&raw, &kCompileLimits, &message.raw);
  require_ok(status, prefix_of(grammar.kind), message);
}

void check(const Constraint& constraint) {
  check_start(constraint);
  check(constraint.grammar);
}

void check_start(const Constraint& constraint) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::kInvalidInput, "constraint: " + what);
  };
  for (const std::string* text : {&constraint.starts_after, &constraint.forced_next,
                                  &constraint.opens_with, &constraint.repeats_after})
    if (text->size() > kMaxMarkerBytes)
      refuse("starts_after, forced_next, opens_with and repeats_after may have at most " +
             std::to_string(kMaxMarkerBytes) + " bytes");
  if (!constraint.repeats_after.empty()) {
    if (!constraint.may_not_start) refuse("repeats_after needs may_not_start");
    if (constraint.starts_within != 0) refuse("repeats_after excludes starts_within");
  }
  if (!constraint.starts_after.empty()) return;
  if (!constraint.forced_next.empty()) refuse("forced_next needs starts_after");
  if (!constraint.opens_with.empty()) refuse("opens_with needs starts_after");
  if (constraint.starts_within != 0) refuse("starts_within needs starts_after");
  if (constraint.may_not_start) refuse("may_not_start needs starts_after");
}

}  // namespace billow::constraint
