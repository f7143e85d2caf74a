#include "prompt/go/evaluator.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/go_text.h"
#include "base/utf8.h"
#include "prompt/go/functions.h"
#include "prompt/go/print.h"

namespace billow::prompt::go {
namespace {

// What runs after a node: the next node, the loop's next turn, or the code after the loop.
enum class Flow { kNext, kContinue, kBreak };

constexpr size_t kVariablesPerStep = 16;  // variables that a search passes per step
constexpr size_t kMaxShownBytes = 60;

class Evaluator {
 public:
  Evaluator(const Program& program, const Value& data, const Run& run)
      : program_(program), run_(run), out_(run.budget), variables_{{"$", data}} {}

  std::string evaluate(const Value& data) {
    nodes(program_.root, data);
    return out_.take();
  }

 private:
  [[noreturn]] void fail(const Place& place, const std::string& what) const {
    const size_t at = static_cast<size_t>(place.text.data() - program_.source.data());
    const size_t line_end = at == 0 ? std::string::npos : program_.source.rfind('\n', at - 1);
    const size_t column = at - (line_end == std::string::npos ? 0 : line_end + 1);
    std::string shown(place.text.substr(0, kMaxShownBytes));
    if (place.text.size() > shown.size()) shown += "...";
    std::string message = "template: :" + std::to_string(place.line) + ":" +
                          std::to_string(column) + ": executing " + go_quoted(template_name_) +
                          " at <" + shown + ">: " + what;
    std::replace(message.begin(), message.end(), '\n', ' ');
    throw Error(ErrorCode::kInvalidInput, utf8::sanitized(message));
  }

  // Counts one level of nested nodes, pipelines or templates.
  class Level {
   public:
    explicit Level(Evaluator& evaluator) : evaluator_(evaluator) {
      if (++evaluator_.depth_ <= kMaxRunDepth) return;
      --evaluator_.depth_;
      throw Error(ErrorCode::kTooLarge,
                  "template: runs nested deeper than " + std::to_string(kMaxRunDepth) + " levels");
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --evaluator_.depth_; }

   private:
    Evaluator& evaluator_;
  };

  Flow nodes(const Nodes& list, const Value& dot) {
    const Level level(*this);
    for (const Node& item : list) {
      if (item.order > run_.last_order) break;
      const Flow flow = node(item, dot);
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Flow node(const Node& item, const Value& dot) {
    run_.budget.spend_steps(1);
    switch (item.kind) {
      case Node::Kind::kText:
        out_.append(item.text);
        return Flow::kNext;
      case Node::Kind::kAction:
        action(*item.pipeline, dot);
        return Flow::kNext;
      case Node::Kind::kIf:
      case Node::Kind::kWith:
        return branch(item, dot);
      case Node::Kind::kRange:
        return range(item, dot);
      case Node::Kind::kTemplate:
        invoke(item, dot);
        return Flow::kNext;
      case Node::Kind::kBreak:
        return Flow::kBreak;
      case Node::Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  // Runs an action. Variables that the action declares live until the end of the list around it.
  void action(const Pipeline& pipe, const Value& dot) {
    const Value value = pipeline(pipe, dot);
    if (!pipe.variables.empty()) return;
    if (value.is_nil()) return out_.append("<no value>");
    append_formatted(out_, value, {});
  }

  Flow branch(const Node& item, const Value& dot) {
    const size_t mark = variables_.size();
    const Value value = pipeline(*item.pipeline, dot);
    const bool is_true = value.is_true();
    const bool is_new_dot = is_true && item.kind == Node::Kind::kWith;
    const Flow flow = nodes(is_true ? item.body : item.other, is_new_dot ? value : dot);
    variables_.resize(mark);
    return flow;
  }

  Flow range(const Node& item, const Value& dot) {
    const size_t mark = variables_.size();
    const Pipeline& pipe = *item.pipeline;
    const Value value = pipeline(pipe, dot);
    Flow flow = Flow::kNext;
    const bool has_run = turns(item, pipe, value);
    if (!has_run) flow = nodes(item.other, dot);
    variables_.resize(mark);
    return flow;
  }

  // Runs the body for each item of `value`; returns false if there are no items.
  bool turns(const Node& item, const Pipeline& pipe, const Value& value) {
    const size_t mark = variables_.size();
    const auto turn = [&](const Value& index, const Value& element) {
      run_.budget.spend_steps(1);
      set_range_variables(pipe, index, element);
      const Flow flow = nodes(item.body, element);
      variables_.resize(mark);
      return flow != Flow::kBreak;
    };
    if (const auto* count = value.as_integer()) {
      if (pipe.variables.size() > 1) {
        fail(pipe.place,
             "can't use " + std::to_string(*count) + " to iterate over more than one variable");
      }
      for (int64_t i = 0; i < *count; ++i) {
        if (!turn(Value(), Value::integer(i))) break;
      }
      return *count > 0;
    }
    if (const auto* list = value.as_list()) {
      for (size_t i = 0; i < list->n_items; ++i) {
        if (!turn(Value::integer(static_cast<int64_t>(i)), list->first()[i])) break;
      }
      return list->n_items > 0;
    }
    const auto* map = value.as_map();
    if (!map && !value.is_nil()) {
      fail(pipe.place,
           "range can't iterate over a value of type " + std::string(value.type_name()));
    }
    if (!map) return false;
    for (const auto& [key, element] : map->entries) {
      run_.budget.spend_bytes(key.size());
      if (!turn(Value::text(key), element)) break;
    }
    return !map->entries.empty();
  }

  void set_range_variables(const Pipeline& pipe, const Value& index, const Value& element) {
    const auto& names = pipe.variables;
    if (names.empty()) return;
    if (pipe.is_assignment) {
      set_variable(pipe, names.back(), element);
      if (names.size() > 1) set_variable(pipe, names.front(), index);
    } else {
      variables_.back().second = element;
      if (names.size() > 1) variables_[variables_.size() - 2].second = index;
    }
  }

  // Runs another template, which sees only its own variables.
  void invoke(const Node& item, const Value& dot) {
    const auto found = program_.defined.find(item.name);
    if (found == program_.defined.end()) {
      fail(item.place, "template " + go_quoted(item.name) + " not defined");
    }
    const Value argument = item.pipeline ? pipeline(*item.pipeline, dot) : Value();
    auto variables = std::exchange(variables_, {{"$", argument}});
    const std::string_view name = std::exchange(template_name_, found->first);
    nodes(found->second, argument);
    variables_ = std::move(variables);
    template_name_ = name;
  }

  Value pipeline(const Pipeline& pipe, const Value& dot) {
    const Level level(*this);
    std::optional<Value> value;
    for (const Command& item : pipe.commands) value = command(item, dot, value);
    for (const std::string_view name : pipe.variables) {
      if (pipe.is_assignment) {
        set_variable(pipe, name, *value);
      } else {
        variables_.emplace_back(name, *value);
      }
    }
    return *std::move(value);
  }

  // Runs a command. `last` is the value of the previous command of the pipeline: one more argument.
  Value command(const Command& item, const Value& dot, const std::optional<Value>& last) {
    run_.budget.spend_steps(item.operands.size());
    const Operand& first = item.operands.front();
    const bool has_arguments = item.operands.size() > 1 || last;
    if (first.kind == Operand::Kind::kFunction && first.fields.empty()) {
      return call(item, dot, last);
    }
    if (has_arguments && first.fields.empty()) {
      fail(first.place, "can't give argument to non-function " + std::string(first.place.text));
    }
    if (has_arguments) {
      fail(first.place, std::string(first.fields.back()) + " is not a method but has arguments");
    }
    if (first.kind == Operand::Kind::kNil) fail(first.place, "nil is not a command");
    return operand(first, dot);
  }

  Value operand(const Operand& item, const Value& dot) {
    Value value;
    switch (item.kind) {
      case Operand::Kind::kDot:
        value = dot;
        break;
      case Operand::Kind::kNil:
        break;
      case Operand::Kind::kConstant:
        value = item.constant;
        break;
      case Operand::Kind::kVariable:
        value = *variable(item.place, item.name);
        break;
      case Operand::Kind::kFunction:
        value = call_alone(item);
        break;
      case Operand::Kind::kPipeline:
        value = pipeline(*item.pipeline, dot);
        break;
    }
    run_.budget.spend_steps(item.fields.size());
    for (size_t i = 0; i < item.fields.size(); ++i) {
      value = field(value, item.fields[i], item.place, i == 0);
    }
    return value;
  }

  // Returns a field of `value`. At the start of a chain, every field of nil is nil. Later in a
  // chain, a field of nil is an error.
  Value field(const Value& value, std::string_view name, const Place& place, bool is_first) const {
    const Value* found = nullptr;
    if (const auto* map = value.as_map()) {
      found = map->find(name);
      return found ? *found : Value();
    }
    if (value.is_nil() && is_first) return {};
    if (value.is_nil()) fail(place, "nil pointer evaluating interface {}." + std::string(name));
    if (const auto* record = value.as_record()) found = record->find(name);
    if (!found) {
      fail(place, "can't evaluate field " + std::string(name) + " in type " +
                      std::string(value.type_name()));
    }
    return *found;
  }

  Value* variable(const Place& place, std::string_view name) {
    for (size_t i = variables_.size(); i > 0; --i) {
      if (variables_[i - 1].first != name) continue;
      run_.budget.spend_steps((variables_.size() - i) / kVariablesPerStep);
      return &variables_[i - 1].second;
    }
    fail(place, "undefined variable: " + std::string(name));
  }

  void set_variable(const Pipeline& pipe, std::string_view name, const Value& value) {
    *variable(pipe.place, name) = value;
  }

  Value call(const Command& item, const Value& dot, const std::optional<Value>& last) {
    const Operand& name = item.operands.front();
    const Function& function = *find_function(name.name);
    check_count(function, name.place, item.operands.size() - 1, last.has_value());
    if (!function.body) return decide(item, dot, last, function.name == "or");
    Call arguments{{}, run_.budget, run_.now};
    arguments.arguments.reserve(item.operands.size());
    for (size_t i = 1; i < item.operands.size(); ++i) {
      arguments.arguments.push_back(operand(item.operands[i], dot));
    }
    if (last) arguments.arguments.push_back(*last);
    return run_function(function, arguments, name.place);
  }

  // Calls a function that is an argument, or whose result has fields chained to it.
  Value call_alone(const Operand& item) {
    const Function& function = *find_function(item.name);
    check_count(function, item.place, 0, false);
    Call arguments{{}, run_.budget, run_.now};
    return run_function(function, arguments, item.place);
  }

  void check_count(const Function& function, const Place& place, size_t n, bool has_last) const {
    const size_t n_all = n + (has_last ? 1 : 0);
    const bool is_any = function.n_max == kAnyNumber;
    if (n_all >= function.n_min && (is_any || n_all <= function.n_max)) return;
    fail(place, "wrong number of args for " + std::string(function.name) + ": want " +
                    (is_any ? "at least " : "") + std::to_string(function.n_min) + " got " +
                    std::to_string(is_any ? n : n_all));
  }

  Value run_function(const Function& function, Call& arguments, const Place& place) const {
    try {
      return function.body(arguments);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidInput) throw;
      fail(place, "error calling " + std::string(function.name) + ": " + error.what());
    }
  }

  // Runs `and` or `or`: returns the first operand that decides, or the last operand.
  Value decide(const Command& item, const Value& dot, const std::optional<Value>& last,
               bool is_or) {
    Value value;
    for (size_t i = 1; i < item.operands.size(); ++i) {
      value = operand(item.operands[i], dot);
      if (value.is_true() == is_or) return value;
    }
    return last ? *last : value;
  }

  const Program& program_;
  const Run& run_;
  BudgetedText out_;
  std::vector<std::pair<std::string_view, Value>> variables_;
  std::string_view template_name_;
  size_t depth_ = 0;
};

}  // namespace

std::string evaluate(const Program& program, const Value& data, const Run& run) {
  return Evaluator(program, data, run).evaluate(data);
}

}  // namespace billow::prompt::go
