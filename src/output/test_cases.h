// Test cases: what a model writes and what it means, one case per line: "id ;; family/state ;; what
// the model writes ;; thinking ;; text ;; calls". In a text, \n is a line break, \\ a backslash,
// \xHH a byte, and ‖ a cut between pieces. «» surround text that is not a control token. ∅ means
// nothing. A call is name{json}. [id] comes before the name if the model writes an id. " + "
// separates calls.
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
  std::string arguments;  // exactly as written
};

struct SampleCase {
  std::string id;
  std::string family;
  std::string note;  // text after the state
  char state = 'C';  // O: in thinking, C: in text, M: the model opens the thinking
  std::string text;  // without ‖ and «»
  std::vector<size_t> cuts;
  std::vector<Mark> plain;  // ranges that are not control tokens
  std::string thinking;
  std::string content;
  std::vector<SampleCall> calls;
  std::string remark;  // text after the calls
};

// Reads the cases of a file: the lines that begin with a number and " ;; ".
std::vector<SampleCase> read_cases(const std::filesystem::path& file);

// The parsed form of an answer.
struct Outcome {
  std::string thinking;
  std::string content;
  std::vector<SampleCall> calls;    // complete calls
  std::vector<SampleCall> cut_off;  // incomplete calls
  std::vector<Event> events;        // adjacent events of one kind are merged
};

// Runs an answer through a parser, cut into pieces at `cuts`. `marks` are its control tokens.
Outcome parse_answer(const Format& format, const Start& start, const std::vector<Tool>& tools,
                     const Options& options, std::string_view text, const std::vector<Mark>& marks,
                     const std::vector<size_t>& cuts, FinishReason reason);

// Returns the tools weather, add, set, ping, run and todo.
std::vector<Tool> sample_tools();

}  // namespace billow::output
