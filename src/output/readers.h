// A reader for each group of call forms.
#pragma once

#include <memory>

#include "output/answer.h"
#include "output/grammar.h"

namespace billow::output {

// All of these texts.
template <typename... More>
Texts joined(Texts first, const More&... more) {
  (first.insert(first.end(), more.begin(), more.end()), ...);
  return first;
}

// The readers keep `form` and `answer`, which must outlive them.
std::unique_ptr<CallReader> make_reader(const JsonCalls& form, Answer& answer);
std::unique_ptr<CallReader> make_reader(const NamedCalls& form, Answer& answer);
std::unique_ptr<CallReader> make_reader(const TaggedCalls& form, Answer& answer);
std::unique_ptr<CallReader> make_reader(const PairCalls& form, Answer& answer);
std::unique_ptr<CallReader> make_reader(const PythonCalls& form, Answer& answer);
std::unique_ptr<CallReader> make_reader(const GemmaCalls& form, Answer& answer);

// Reads an answer in the form of harmony to its end.
Task<bool> read_harmony(Answer& answer, bool parses_calls);

}  // namespace billow::output
