// What a Go template is made of, as the parser leaves it: immutable, and walked by the evaluator
// and by those who ask a template what it is for. Names are views into the source, which the
// Program owns.
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

// Where something stands.
struct Place {
  size_t line = 0;        // counts from 1
  std::string_view text;  // what stands there, a part of the source
};

// A term with the fields chained to it: `.A.B`, `$x.A`, `(f 1).A`, `"text"`, `f`.
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

// Operands side by side: a call, or one value.
struct Command {
  std::vector<Operand> operands;
};

struct Pipeline {
  std::vector<std::string_view> variables;  // declared, or assigned to
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
  std::unique_ptr<Pipeline> pipeline;  // null where there is none
  Nodes body;                          // of kIf, kRange, kWith
  Nodes other;                         // their else; `else if` is one kIf in here
  size_t order = 0;                    // counts the nodes of the root from 1, as they are written
  Place place;
};

struct Program {
  std::string source;
  Nodes root;
  std::map<std::string, Nodes, std::less<>> defined;  // by define and block
};

inline constexpr size_t kMaxNesting = 100;      // of control structures and parentheses
inline constexpr size_t kMaxVariables = 1'000;  // declared at one place

// Throws Error (kInvalidInput) "template: :LINE: what", or kTooLarge beyond a limit.
std::unique_ptr<Program> parse(std::string source);

// Appends an action that prints the field of the dot. `field` outlives the program.
void append_action(Program& program, std::string_view field);

// Calls `visit` with each name of a chain of fields in `pipeline`, as "A" and "B" for `.A.B`.
template <typename Visitor>
void for_each_field(const Pipeline& pipeline, const Visitor& visit) {
  for (const Command& command : pipeline.commands) {
    for (const Operand& operand : command.operands) {
      for (const std::string_view field : operand.fields) visit(field);
      if (operand.pipeline) for_each_field(*operand.pipeline, visit);
    }
  }
}

// Whether `pipeline`, which may be null, mentions the field anywhere.
bool mentions(const Pipeline* pipeline, std::string_view field);

}  // namespace billow::prompt::go
