#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/go_text.h"
#include "prompt/go/functions.h"
#include "prompt/go/lexer.h"
#include "prompt/go/literal.h"
#include "prompt/go/syntax.h"

namespace billow::prompt::go {
namespace {

using Kind = Token::Kind;

// What ended a list of nodes.
enum class Ending { kEnd, kElse, kSource };

bool is_blank(const Nodes& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [](const Node& node) {
    return node.kind == Node::Kind::kText &&
           node.text.find_first_not_of(" \t\r\n\v\f") == node.text.npos;
  });
}

class Parser {
 public:
  explicit Parser(Program& program) : program_(program), tokens_(lex(program.source)) {}

  void run() {
    if (nodes(program_.root, true) != Ending::kSource) fail("unexpected {{" + ending_ + "}}");
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kInvalidInput, "template: :" + std::to_string(line_) + ": " + what);
  }

  [[noreturn]] void unexpected(const Token& token, const std::string& context) const {
    if (token.kind != Kind::kError) fail("unexpected " + shown(token) + " in " + context);
    if (action_line_ == 0 || action_line_ == token.line) fail(token.message);
    const bool is_action = token.message.ends_with(" action");
    fail(token.message + (is_action ? "" : " in action") +
         " started at :" + std::to_string(action_line_));
  }

  static std::string shown(const Token& token) {
    if (token.kind == Kind::kEnd) return "EOF";
    if (token.kind == Kind::kKeyword) return "<" + std::string(token.text) + ">";
    return token.text.size() > 10 ? go_quoted(token.text.substr(0, 10)) + "..."
                                  : go_quoted(token.text);
  }

  const Token& peek() const { return tokens_[at_]; }

  const Token& next() {
    const Token& token = tokens_[at_];
    line_ = token.line;
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  void skip_spaces() {
    while (peek().kind == Kind::kSpace) next();
  }

  const Token& next_after_spaces() {
    skip_spaces();
    return next();
  }

  const Token& expect(Kind kind, const std::string& context) {
    const Token& token = next_after_spaces();
    if (token.kind != kind) unexpected(token, context);
    return token;
  }

  static Place place_of(const Token& token) { return {token.line, token.text}; }

  // Extends the text of `place` from its token to the last token that was read.
  void widen(Place& place) const {
    const char* const begin = place.text.data();
    size_t last = at_ == 0 ? 0 : at_ - 1;
    while (last > 0 && tokens_[last].kind == Kind::kSpace) --last;
    const char* const end = tokens_[last].text.data() + tokens_[last].text.size();
    if (end > begin) place.text = {begin, static_cast<size_t>(end - begin)};
  }

  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ <= kMaxNesting) return;
      throw Error(ErrorCode::kTooLarge, "template: :" + std::to_string(parser_.line_) +
                                            ": nested deeper than " + std::to_string(kMaxNesting) +
                                            " levels");
    }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { --parser_.depth_; }

   private:
    Parser& parser_;
  };

  // Parses texts and actions up to an end, an else or the end of the source.
  Ending nodes(Nodes& out, bool is_top = false) {
    while (true) {
      const Token& token = next_after_spaces();
      if (token.kind == Kind::kEnd) {
        if (!is_top) fail("unexpected EOF");
        return Ending::kSource;
      }
      if (token.kind == Kind::kText) {
        Node node;
        node.text = token.text;
        node.place = place_of(token);
        out.push_back(std::move(node));
        continue;
      }
      if (token.kind != Kind::kLeftDelimiter) unexpected(token, "input");
      action_line_ = token.line;
      skip_spaces();
      const std::string_view word = peek().kind == Kind::kKeyword ? peek().text : "";
      if (word == "end" || word == "else") return ending(word);
      if (word == "define" && is_top) {
        next();
        define();
      } else {
        action(out, word);
      }
      action_line_ = 0;
    }
  }

  // Parses an end or an else. The `if` or `with` of `else if` and `else with` stays unread.
  Ending ending(std::string_view word) {
    next();
    ending_ = word;
    skip_spaces();
    const bool is_chain = word == "else" && peek().kind == Kind::kKeyword &&
                          (peek().text == "if" || peek().text == "with");
    if (!is_chain) expect(Kind::kRightDelimiter, ending_);
    action_line_ = 0;
    return word == "end" ? Ending::kEnd : Ending::kElse;
  }

  void action(Nodes& out, std::string_view word) {
    Node node;
    node.place = place_of(peek());
    if (word == "if" || word == "range" || word == "with") {
      next();
      control(node, word);
    } else if (word == "break" || word == "continue") {
      next();
      leave_range(node, word);
    } else if (word == "template" || word == "block") {
      next();
      invoke(node, word == "block");
    } else {
      node.kind = Node::Kind::kAction;
      node.pipeline = pipeline("command", Kind::kRightDelimiter);
    }
    out.push_back(std::move(node));
  }

  void leave_range(Node& node, std::string_view word) {
    const std::string name = "{{" + std::string(word) + "}}";
    expect(Kind::kRightDelimiter, name);
    if (n_ranges_ == 0) fail(name + " outside {{range}}");
    node.kind = word == "break" ? Node::Kind::kBreak : Node::Kind::kContinue;
  }

  void control(Node& node, std::string_view word) {
    const Nested nested(*this);
    const size_t n_variables = variables_.size();
    node.kind = word == "if"      ? Node::Kind::kIf
                : word == "range" ? Node::Kind::kRange
                                  : Node::Kind::kWith;
    node.pipeline = pipeline(std::string(word), Kind::kRightDelimiter);
    action_line_ = 0;
    const size_t n_in_range = word == "range" ? 1 : 0;
    n_ranges_ += n_in_range;
    const Ending ended = nodes(node.body);
    n_ranges_ -= n_in_range;
    if (ended == Ending::kElse) otherwise(node, word);
    variables_.resize(n_variables);
  }

  void otherwise(Node& node, std::string_view word) {
    const Token& token = peek();
    if (token.kind == Kind::kKeyword && token.text == word && word != "range") {
      Node chained;
      chained.place = place_of(token);
      next();
      control(chained, word);
      node.other.push_back(std::move(chained));
    } else if (nodes(node.other) != Ending::kEnd) {
      fail("expected end; found {{else}}");
    }
  }

  // Parses the body of a define or block. The body does not see the variables around it.
  Nodes definition(const std::string& context) {
    const Nested nested(*this);
    auto variables = std::exchange(variables_, {"$"});
    const size_t n_ranges = std::exchange(n_ranges_, 0);
    Nodes body;
    if (nodes(body) != Ending::kEnd) fail("unexpected {{else}} in " + context);
    variables_ = std::move(variables);
    n_ranges_ = n_ranges;
    return body;
  }

  void add_definition(const std::string& name, Nodes body) {
    Nodes& old = program_.defined[name];
    if (is_blank(old)) {
      old = std::move(body);
    } else if (!is_blank(body)) {
      fail("template: multiple definition of template " + go_quoted(name));
    }
  }

  std::string template_name(const std::string& context) {
    const Token& token = next_after_spaces();
    if (token.kind != Kind::kString && token.kind != Kind::kRawString) unexpected(token, context);
    auto name = parse_string(token.text);
    if (!name) fail("invalid syntax");
    return *std::move(name);
  }

  void define() {
    const std::string context = "define clause";
    const std::string name = template_name(context);
    expect(Kind::kRightDelimiter, context);
    add_definition(name, definition(context));
  }

  void invoke(Node& node, bool is_block) {
    const std::string context = is_block ? "block clause" : "template clause";
    node.kind = Node::Kind::kTemplate;
    node.name = template_name(context);
    skip_spaces();
    if (!is_block && peek().kind == Kind::kRightDelimiter) {
      next();
      return;
    }
    node.pipeline = pipeline(context, Kind::kRightDelimiter);
    if (is_block) add_definition(node.name, definition(context));
  }

  std::unique_ptr<Pipeline> pipeline(const std::string& context, Kind end) {
    auto result = std::make_unique<Pipeline>();
    skip_spaces();
    result->place = place_of(peek());
    declarations(*result, context);
    while (true) {
      skip_spaces();
      if (peek().kind == end) break;
      if (!begins_operand(peek())) unexpected(next(), context);
      result->commands.push_back(command());
    }
    widen(result->place);
    next();
    check(*result, context);
    return result;
  }

  static bool begins_operand(const Token& token) {
    switch (token.kind) {
      case Kind::kBool:
      case Kind::kRune:
      case Kind::kDot:
      case Kind::kField:
      case Kind::kIdentifier:
      case Kind::kNumber:
      case Kind::kNil:
      case Kind::kRawString:
      case Kind::kString:
      case Kind::kVariable:
      case Kind::kLeftParenthesis:
        return true;
      default:
        return false;
    }
  }

  void declarations(Pipeline& result, const std::string& context) {
    while (peek().kind == Kind::kVariable) {
      const size_t begin = at_;
      const Token& variable = next();
      skip_spaces();
      const Token& mark = peek();
      const bool is_comma = mark.kind == Kind::kCharacter && mark.text == ",";
      if (mark.kind != Kind::kAssign && mark.kind != Kind::kDeclare && !is_comma) {
        at_ = begin;
        return;
      }
      next();
      result.variables.push_back(variable.text);
      result.is_assignment = mark.kind == Kind::kAssign;
      variables_.push_back(variable.text);
      if (variables_.size() > kMaxVariables) fail("too many variables");
      if (!is_comma) return;
      if (context != "range" || result.variables.size() > 1) {
        fail("too many declarations in " + context);
      }
      skip_spaces();
      if (peek().kind != Kind::kVariable) fail("range can only initialize variables");
    }
  }

  void check(const Pipeline& result, const std::string& context) const {
    if (result.commands.empty()) fail("missing value for " + context);
    for (size_t i = 1; i < result.commands.size(); ++i) {
      const Operand& first = result.commands[i].operands.front();
      const bool is_value = first.fields.empty() && (first.kind == Operand::Kind::kDot ||
                                                     first.kind == Operand::Kind::kNil ||
                                                     first.kind == Operand::Kind::kConstant);
      if (is_value) fail("non executable command in pipeline stage " + std::to_string(i + 1));
    }
  }

  Command command() {
    Command result;
    while (true) {
      skip_spaces();
      if (begins_operand(peek())) result.operands.push_back(operand());
      const Token& token = peek();
      if (token.kind == Kind::kSpace) {
        next();
      } else if (token.kind == Kind::kPipe) {
        next();
        break;
      } else if (token.kind == Kind::kRightDelimiter || token.kind == Kind::kRightParenthesis) {
        break;
      } else {
        unexpected(next(), "operand");
      }
    }
    if (result.operands.empty()) fail("empty command");
    // Errors of a call show the whole call.
    if (result.operands.front().kind == Operand::Kind::kFunction) {
      const std::string_view last = result.operands.back().place.text;
      std::string_view& first = result.operands.front().place.text;
      const char* const begin = first.data();
      const char* const end = last.data() + last.size();
      first = {begin, static_cast<size_t>(end - begin)};
    }
    return result;
  }

  Operand operand() {
    Operand result = term();
    if (peek().kind != Kind::kField) return result;
    const bool is_field = !result.fields.empty();
    if (!is_field && (result.kind == Operand::Kind::kConstant ||
                      result.kind == Operand::Kind::kNil || result.kind == Operand::Kind::kDot)) {
      fail("unexpected . after term " + go_quoted(result.place.text));
    }
    while (peek().kind == Kind::kField) result.fields.push_back(next().text.substr(1));
    widen(result.place);
    return result;
  }

  Operand term() {
    const Token& token = next();
    Operand result;
    result.place = place_of(token);
    switch (token.kind) {
      case Kind::kDot:
        break;
      case Kind::kField:
        result.fields.push_back(token.text.substr(1));
        break;
      case Kind::kNil:
        result.kind = Operand::Kind::kNil;
        break;
      case Kind::kIdentifier:
        result.kind = Operand::Kind::kFunction;
        result.name = token.text;
        if (!find_function(token.text)) fail("function " + go_quoted(token.text) + " not defined");
        break;
      case Kind::kVariable:
        result.kind = Operand::Kind::kVariable;
        result.name = token.text;
        if (std::find(variables_.begin(), variables_.end(), token.text) == variables_.end()) {
          fail("undefined variable " + go_quoted(token.text));
        }
        break;
      case Kind::kLeftParenthesis: {
        const Nested nested(*this);
        result.kind = Operand::Kind::kPipeline;
        result.pipeline = pipeline("parenthesized pipeline", Kind::kRightParenthesis);
        widen(result.place);
        break;
      }
      default:
        constant(result, token);
    }
    return result;
  }

  void constant(Operand& result, const Token& token) const {
    result.kind = Operand::Kind::kConstant;
    if (token.kind == Kind::kBool) {
      result.constant = Value::boolean(token.text == "true");
    } else if (token.kind == Kind::kString || token.kind == Kind::kRawString) {
      auto text = parse_string(token.text);
      if (!text) fail("invalid syntax");
      result.is_text = true;
      result.constant = Value::text(*std::move(text));
    } else {
      const auto value =
          token.kind == Kind::kRune ? parse_rune(token.text) : parse_number(token.text);
      if (!value) {
        fail(
            (token.kind == Kind::kRune ? "malformed character constant: " : "bad number syntax: ") +
            go_quoted(token.text));
      }
      result.constant = *value;
    }
  }

  Program& program_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  size_t line_ = 1;
  size_t action_line_ = 0;  // first line of the action that is being read; 0 between actions
  size_t depth_ = 0;
  size_t n_ranges_ = 0;  // ranges around the current place, in this template
  std::string ending_;   // the keyword that ended the last list of nodes
  std::vector<std::string_view> variables_{"$"};
};

void number(Nodes& nodes, size_t& n_nodes) {
  for (Node& node : nodes) {
    node.order = ++n_nodes;
    number(node.body, n_nodes);
    number(node.other, n_nodes);
  }
}

}  // namespace

std::unique_ptr<Program> parse(std::string source) {
  auto program = std::make_unique<Program>();
  program->source = std::move(source);
  Parser(*program).run();
  size_t n_nodes = 0;
  number(program->root, n_nodes);
  return program;
}

void append_action(Program& program, std::string_view field) {
  const Place end{1, std::string_view(program.source).substr(program.source.size())};
  Operand operand;
  operand.fields.push_back(field);
  operand.place = end;
  Node node;
  node.kind = Node::Kind::kAction;
  node.pipeline = std::make_unique<Pipeline>();
  node.pipeline->place = end;
  node.pipeline->commands.emplace_back().operands.push_back(std::move(operand));
  node.place = end;
  program.root.push_back(std::move(node));
  size_t n_nodes = 0;
  number(program.root, n_nodes);
}

bool mentions(const Pipeline* pipeline, std::string_view field) {
  bool is_found = false;
  if (pipeline) {
    for_each_field(*pipeline, [&](std::string_view name) { is_found = is_found || name == field; });
  }
  return is_found;
}

}  // namespace billow::prompt::go
