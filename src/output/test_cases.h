// Cases of what models write and what it means, one to a line: "id ;; family/state ;; what the
// model writes ;; thinking ;; text ;; calls". Within a text \n is a line break, \\ a backslash,
// \xHH a byte, ‖ a place where it is cut, «» stand around what is no control token, and ∅ is
// nothing. Calls are name{json}, with [id] before the name where the model gives one, and " + "
// between them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "output/format.h"
#include "output/parser.h"

namespace billow::output {

struct SampleCall {
  std::string id;
  std::string name;
  std::string arguments;  // as they were written
};

struct SampleCase {
  std::string id;
  std::string family;
  std::string note;  // behind the state
  char state = 'C';  // O: in thinking, C: in text, M: the model opens the thinking
  std::string text;  // without its signs
  std::vector<size_t> cuts;
  std::vector<Mark> plain;  // stretches that are no control tokens
  std::string thinking;
  std::string content;
  std::vector<SampleCall> calls;
  std::string remark;  // behind the calls
};

// The cases in a file: lines that begin with a number and " ;; ".
std::vector<SampleCase> read_cases(const std::filesystem::path& file);

// What came of an answer.
struct Outcome {
  std::string thinking;
  std::string content;
  std::vector<SampleCall> calls;    // complete ones
  std::vector<SampleCall> cut_off;  // others
  std::vector<Event> events;        // neighbours of one kind are one
};

// Runs an answer through a parser, cut at these places. `marks`: its control tokens.
Outcome parse_answer(const Format& format, const Start& start, const std::vector<Tool>& tools,
                     const Options& options, std::string_view text, const std::vector<Mark>& marks,
                     const std::vector<size_t>& cuts, FinishReason reason);

// weather, add, set, ping, run and todo.
std::vector<Tool> sample_tools();

}  // namespace billow::output
