// The readers of all forms of calls.
#pragma once

#include <memory>

#include "output/answer.h"
#include "output/grammar.h"

namespace billow::output {

// Returns all of these texts in one list.
template <typename... More>
Texts joined(Texts first, const More&... more) {
  (first.insert(first.end(), more.begin(), more.end()), ...);
  return first;
}

// Return a reader for a form. `form` and `answer` must outlive the reader.
std::unique_ptr<CallReader> make_reader(const JsonCalls& form, Answer& answer);
std::unique_ptr<CallReader> make_reader(const NamedCalls& form, Answer& answer);
std::unique_ptr<CallReader> make_reader(const TaggedCalls& form, Answer& answer);
std::unique_ptr<CallReader> make_reader(const PairCalls& form, Answer& answer);
std::unique_ptr<CallReader> make_reader(const PythonCalls& form, Answer& answer);
std::unique_ptr<CallReader> make_reader(const GemmaCalls& form, Answer& answer);

// Reads a whole answer in the form of harmony.
Task<bool> read_harmony(Answer& answer, bool parses_calls);

}  // namespace billow::output
