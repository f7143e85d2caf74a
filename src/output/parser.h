// Takes an answer apart while it comes. What a parser says does not depend on how the answer is cut
// into pieces, and nothing that it has said is taken back. Each byte of the answer is thinking,
// text, part of a call, a marker, or blanks around one. A parser belongs to one answer and one
// thread.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "output/event.h"
#include "output/format.h"

namespace billow::output {

struct Options {
  // Calls come whole: all events of a call together, once it is complete, and the arguments are
  // always a JSON object. Where an answer is cut off within a call, what there is of it comes at
  // the end, without kCallEnd. Otherwise events come as early as they are certain, and a body that
  // is no JSON comes as the model wrote it.
  bool whole_calls = false;
  // Calls are text: tool_choice is none. So they are where no tool is declared.
  bool parse_calls = true;
  // False where the request turns thinking off: thinking is not said, but where it is all that the
  // model has written, it is its text.
  bool thinks = true;
};

class Parser {
 public:
  Parser(const Format& format, const Start& start, std::vector<Tool> tools,
         const Options& options = {});
  ~Parser();
  Parser(Parser&&) noexcept;
  Parser& operator=(Parser&&) noexcept;

  // Takes the next piece, and appends what has become certain. `marks` rise and do not overlap.
  void add(std::string_view text, std::span<const Mark> marks, std::vector<Event>& out);

  // The end of the answer: appends what was held back. Nothing may be added afterwards.
  void finish(FinishReason reason, std::vector<Event>& out);

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace billow::output
