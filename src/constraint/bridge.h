// Helpers for calls of the Rust bridge, for this module's files only.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "billow_bridge.h"
#include "billow_bridge_text.h"
#include "constraint/grammar.h"

namespace billow::constraint {

// Limits of a compilation. The largest schemas in use need tens of milliseconds and tens of MiB.
inline constexpr billow_limits kCompileLimits = {
    .n_instructions = 0, .memory_bytes = uint64_t{512} << 20, .time_ms = 10'000};

// Throws Error with `what` and the bridge's message if a call failed.
inline void require_ok(billow_status status, const std::string& what, const BridgeText& message) {
  if (status != BILLOW_OK)
    throw Error(bridge_error_code(status), what + std::string(message.view()));
}

// Returns, for example, "grammar (gbnf): ".
inline std::string prefix_of(GrammarKind kind) {
  return "grammar (" + std::string(grammar_kind_name(kind)) + "): ";
}

// Returns a view. The grammar must outlive the view.
inline billow_grammar bridge_grammar(const Grammar& grammar) {
  return {.kind = static_cast<billow_grammar_kind>(grammar.kind),
          .text = grammar.text.data(),
          .n_bytes = grammar.text.size()};
}

}  // namespace billow::constraint
