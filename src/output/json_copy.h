// JSON as models write it, copied as strict JSON while it comes: what is strict already is copied
// byte for byte. Put right are line breaks and other controls within strings, unknown escapes,
// strings in single quotes, True, False and None, commas before a closing bracket, and at the end
// of an answer missing closing brackets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "output/answer.h"
#include "output/tape.h"

namespace billow::output {

// The deepest nesting of arrays and objects that is copied.
inline constexpr int kMaxJsonDepth = 100;

// Copies the value that stands here. `closers` may stand where a bracket should close: then it is
// added. False where no value can be made of it; the tape is then at what is wrong, and all before
// is copied.
Task<bool> copy_json(Tape& tape, TextSink& to, const Literals& closers, int depth = 0);

// Takes the string that stands here, in either kind of quotes, and appends what it says.
Task<bool> read_string(Tape& tape, std::string& out);

// Takes a fence of Markdown and the blanks behind it; and the one that closes it, with the blanks
// before it. False if there is none.
Task<bool> take_fence(Tape& tape);
Task<bool> take_fence_end(Tape& tape);

// The text of a whole value, put right as above; nullopt where that cannot be.
std::optional<std::string> repaired_json(std::string_view text);

}  // namespace billow::output
