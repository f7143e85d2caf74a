// The parts of an answer as events, in the order in which the model wrote them: thinking, text and
// calls of tools. Also the inputs of a parser that are not text. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace billow::output {

// A tool that the request declares.
struct Tool {
  std::string name;
  std::string parameters_json{};  // a JSON schema of an object, or empty
};

enum class EventKind : uint8_t {
  kThinking,       // text: more of the thinking
  kText,           // text: more of the answer
  kCallBegin,      // text: the name of the tool; id: the model's id of this call
  kCallArguments,  // text: more of the JSON text of the arguments
  kCallEnd,        // the arguments are complete: their pieces form a JSON object
};

// Calls do not overlap: kCallBegin, any number of kCallArguments, kCallEnd, then the next call. A
// call without kCallEnd was cut off. Texts end at the border of a character, if the model's text
// does.
struct Event {
  EventKind kind;
  size_t call = 0;     // number of the call in the answer, from 0
  std::string text{};  // of kCallEnd: empty
  std::string id{};    // of kCallBegin: the id exactly as the model wrote it, or empty

  friend bool operator==(const Event&, const Event&) = default;
};

// A range of a piece of text that is one control token of the vocabulary.
struct Mark {
  size_t offset;  // bytes, in the piece
  size_t length;
};

enum class FinishReason : uint8_t {
  kStop,    // the model has ended its answer
  kLength,  // the answer was cut off: the parser does not complete it
};

}  // namespace billow::output
