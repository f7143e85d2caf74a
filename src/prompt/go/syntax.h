// The parsed form of a Go template: immutable. The evaluator walks it, and so does code that
// inspects a template. Names are views into the source, which the Program owns.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "prompt/go/value.h"

namespace billow::prompt::go {

struct Pipeline;

// The place of something in the source.
struct Place {
  size_t line = 0;        // counts from 1
  std::string_view text;  // the source text at this place
};

// A term with its chained fields: `.A.B`, `$x.A`, `(f 1).A`, `"text"`, `f`.
struct Operand {
  enum class Kind { kDot, kNil, kConstant, kVariable, kFunction, kPipeline };
  Kind kind = Kind::kDot;
  bool is_text = false;  // a constant that is a text literal
  Value constant;
  std::string_view name;  // of the variable, with its `$`, or of the function
  std::unique_ptr<Pipeline> pipeline;
  std::vector<std::string_view> fields;
  Place place;
};

// Adjacent operands: a call, or one value.
struct Command {
  std::vector<Operand> operands;
};

struct Pipeline {
  std::vector<std::string_view> variables;  // the variables that it declares or assigns
  bool is_assignment = false;
  std::vector<Command> commands;
  Place place;
};

struct Node;
using Nodes = std::vector<Node>;

struct Node {
  enum class Kind { kText, kAction, kIf, kRange, kWith, kTemplate, kBreak, kContinue };
  Kind kind = Kind::kText;
  std::string_view text;               // of kText
  std::string name;                    // of the template that kTemplate runs
  std::unique_ptr<Pipeline> pipeline;  // null: none
  Nodes body;                          // of kIf, kRange, kWith
  Nodes other;                         // their else; an `else if` is one kIf in here
  size_t order = 0;                    // numbers the nodes of the root from 1, in source order
  Place place;
};

struct Program {
  std::string source;
  Nodes root;
  std::map<std::string, Nodes, std::less<>> defined;  // by define and block
};

inline constexpr size_t kMaxNesting = 100;      // levels of control structures and parentheses
inline constexpr size_t kMaxVariables = 1'000;  // in scope at one place

// Parses `source`. Throws Error (kInvalidInput) "template: :LINE: what", or kTooLarge beyond a
// limit.
std::unique_ptr<Program> parse(std::string source);

// Appends an action that prints this field of the dot. `field` must outlive the program.
void append_action(Program& program, std::string_view field);

// Calls `visit` with each field name in `pipeline`: with "A" and "B" for `.A.B`.
template <typename Visitor>
void for_each_field(const Pipeline& pipeline, const Visitor& visit) {
  for (const Command& command : pipeline.commands) {
    for (const Operand& operand : command.operands) {
      for (const std::string_view field : operand.fields) visit(field);
      if (operand.pipeline) for_each_field(*operand.pipeline, visit);
    }
  }
}

// Returns whether `pipeline`, which may be null, mentions the field anywhere.
bool mentions(const Pipeline* pipeline, std::string_view field);

}  // namespace billow::prompt::go
