// Copies the JSON of models as strict JSON while it arrives. Strict JSON is copied byte for byte.
// Repairs: line breaks and other control characters in strings; unknown escapes; strings in single
// quotes; True, False and None; commas before a closing bracket; missing closing brackets at the
// end of an answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "output/answer.h"
#include "output/tape.h"

namespace billow::output {

// Max nesting of arrays and objects that is copied.
inline constexpr int kMaxJsonDepth = 100;

// Copies the value at the current position. If one of `closers` is where a bracket must close, the
// bracket is added. Returns false if the text is not a value; the tape is then at the error, and
// everything before it is copied.
Task<bool> copy_json(Tape& tape, TextSink& to, const Literals& closers, int depth = 0);

// Takes the string at the current position, in either kind of quotes, and appends its decoded text.
Task<bool> read_string(Tape& tape, std::string& out);

// Take a Markdown fence with the blanks after it, and a closing fence with the blanks before it.
// Return false if there is no fence.
Task<bool> take_fence(Tape& tape);
Task<bool> take_fence_end(Tape& tape);

// Returns the text of a whole value, repaired as above; nullopt if that is impossible.
std::optional<std::string> repaired_json(std::string_view text);

}  // namespace billow::output
