// Splits an answer into events while it arrives. The events do not depend on how the answer is cut
// into pieces, and no event is taken back. Each byte of the answer is thinking, text, part of a
// call, a marker, or blanks around a marker. A parser is for one answer and one thread.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "output/event.h"
#include "output/format.h"

namespace billow::output {

struct Options {
  // Calls come whole: all events of a call come together after the call is complete, and the
  // arguments are always a JSON object. If the answer is cut off within a call, the parts of the
  // call come at the end, without kCallEnd. If false, events come as early as they are certain, and
  // a body that is not JSON comes unchanged.
  bool whole_calls = false;
  // False if tool_choice is none: calls are text. Calls are also text if no tool is declared.
  bool parse_calls = true;
  // False if the request turns thinking off: thinking is not reported. But if the model writes
  // nothing else, its thinking becomes its text.
  bool thinks = true;
};

class Parser {
 public:
  Parser(const Format& format, const Start& start, std::vector<Tool> tools,
         const Options& options = {});
  ~Parser();
  Parser(Parser&&) noexcept;
  Parser& operator=(Parser&&) noexcept;

  // Parses the next piece and appends the events that have become certain. `marks` are ascending
  // and do not overlap.
  void add(std::string_view text, std::span<const Mark> marks, std::vector<Event>& out);

  // Ends the answer and appends the events that were held back. Do not add text after this call.
  void finish(FinishReason reason, std::vector<Event>& out);

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace billow::output
