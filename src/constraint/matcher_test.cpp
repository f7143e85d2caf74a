#include "constraint/matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "constraint/sample_vocabulary.h"

namespace billow::constraint {
namespace {

const SampleTokens& sample() {
  static const SampleTokens tokens;
  return tokens;
}

std::shared_ptr<const Vocabulary> vocabulary() {
  static const std::shared_ptr<const Vocabulary> made = sample().vocabulary();
  return made;
}

Matcher matcher_of(GrammarKind kind, const std::string& text) {
  return {vocabulary(), Grammar{kind, text}};
}

std::vector<int32_t> allowed(Matcher& matcher) {
  std::vector<uint32_t> mask(vocabulary()->n_words());
  matcher.compute_mask(mask);
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < vocabulary()->n_tokens(); ++i)
    if (mask[i / 32] >> (i % 32) & 1) tokens.push_back(static_cast<int32_t>(i));
  return tokens;
}

// Returns the text of random tokens that the grammar allows. Appends "..." if the text does not end
// within `n_max` tokens.
std::string walk(Matcher& matcher, std::mt19937& random, size_t n_max = 400) {
  std::string text;
  for (size_t i = 0; i < n_max && !matcher.stopped(); ++i) {
    const std::vector<int32_t> tokens = allowed(matcher);
    // After 60 tokens, the text ends as soon as the grammar allows it.
    const bool may_end = std::ranges::find(tokens, sample().end) != tokens.end();
    if (may_end && (i > 60 || random() % 4 == 0)) return text;
    const int32_t token = tokens[random() % tokens.size()];
    if (token == sample().end) return text;
    text += sample().text(token);
    matcher.consume({&token, 1});
  }
  return matcher.stopped() ? text : text + "...";
}

// Returns whether the grammar matches the whole text. Feeds single bytes.
bool matches(Matcher matcher, std::string_view text) {
  for (const char byte : text) {
    const auto token = static_cast<int32_t>(static_cast<unsigned char>(byte));
    if (matcher.stopped() || matcher.n_allowed({&token, 1}) == 0) return false;
    matcher.consume({&token, 1});
  }
  return matcher.accepts();
}

// Replaces exponents by zeros, so that a double can hold the numbers, and then parses JSON. The
// replacement does not make a valid string invalid.
Json parsed(std::string text) {
  bool is_exponent = false;
  for (size_t i = 1; i < text.size(); ++i) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    const bool is_sign = text[i] == '+' || text[i] == '-';
    const bool begins = text[i - 1] == 'e' || text[i - 1] == 'E';
    is_exponent = (begins && (is_digit || is_sign)) || (is_exponent && is_digit);
    if (is_exponent && is_digit) text[i] = '0';
  }
  return Json::parse(text, nullptr, false);
}

TEST(Matcher, JsonModeAllowsOnlyObjects) {
  std::mt19937 random(3);
  size_t n_ended = 0;
  Matcher matcher = matcher_of(GrammarKind::kJsonObject, "");
  for (int i = 0; i < 200; ++i) {
    matcher.reset();
    const std::string text = walk(matcher, random);
    if (text.ends_with("...")) continue;
    ++n_ended;
    EXPECT_TRUE(parsed(text).is_object()) << text;
  }
  EXPECT_GT(n_ended, 50u);
}

TEST(Matcher, StopsWhenJsonIsComplete) {
  Matcher matcher = matcher_of(GrammarKind::kJsonSchema,
                               R"({"type":"object","properties":{"age":{"type":"integer"}},
                                   "required":["age"]})");
  const std::vector<int32_t> tokens = sample().encode("{\"age\": 12}");
  EXPECT_EQ(matcher.n_allowed(tokens), tokens.size());
  matcher.consume(tokens);
  EXPECT_TRUE(matcher.accepts());
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(allowed(matcher), std::vector<int32_t>{sample().end});
}

TEST(Matcher, ObjectsHaveTheListedPropertiesAndNoOthers) {
  const auto schema = [](const char* text) { return matcher_of(GrammarKind::kJsonSchema, text); };
  const char* closed = R"({"properties":{"a":{"type":"integer"}},"type":"object"})";
  EXPECT_TRUE(matches(schema(closed), "{\"a\":1}"));
  EXPECT_TRUE(matches(schema(closed), "{}"));
  EXPECT_FALSE(matches(schema(closed), "{\"b\":1}"));
  EXPECT_TRUE(matches(schema(R"({"type":"object"})"), "{\"b\":1}"));
  EXPECT_TRUE(matches(
      schema(R"({"type":"object","properties":{"a":{}},"additionalProperties":{"type":"null"}})"),
      "{\"b\":null}"));
  EXPECT_TRUE(
      matches(schema(R"({"type":"object","properties":{"a":{}},"required":["b"]})"), "{\"b\":1}"));
  // If the two schemas refused other properties, no object would match both.
  EXPECT_TRUE(matches(schema(R"({"allOf":[
      {"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
      {"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}]})"),
                      "{\"a\":1,\"b\":2}"));
}

TEST(Matcher, WhiteSpaceIsLimited) {
  const auto schema = [] {
    return matcher_of(GrammarKind::kJsonSchema, R"({"type":"array","items":{"type":"null"}})");
  };
  EXPECT_TRUE(matches(schema(), "[\n    null,\n    null\n]"));
  EXPECT_TRUE(matches(schema(), "[ null, null ]"));
  EXPECT_FALSE(matches(schema(), "[   null]"));
  EXPECT_FALSE(matches(schema(), "[\n\nnull]"));
  EXPECT_FALSE(matches(schema(), " [null]"));
}

TEST(Matcher, ControlTokensAreNeverAllowed) {
  for (const GrammarKind kind : {GrammarKind::kJsonObject, GrammarKind::kRegex}) {
    Matcher matcher = matcher_of(kind, kind == GrammarKind::kRegex ? "(?s:.*)" : "");
    const std::vector<int32_t> tokens = allowed(matcher);
    EXPECT_EQ(std::ranges::find(tokens, sample().control), tokens.end());
  }
}

// llguidance accepts a grammar with a part that matches nothing. It fails when the text reaches it.
TEST(Matcher, ThrowsIfNoTokenIsPossible) {
  Matcher matcher = matcher_of(GrammarKind::kLark, "start: \"x\" A\nA: /ab/ & /ac/");
  const int32_t token = 'x';
  try {
    matcher.consume({&token, 1});
    (void)allowed(matcher);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "grammar: the grammar allows no further token");
  }
}

TEST(Matcher, ReturnsTheTokensThatMustCome) {
  Matcher matcher = matcher_of(GrammarKind::kRegex, "hello world[0-9]");
  std::vector<int32_t> forced = matcher.forced();
  std::string text;
  for (const int32_t token : forced) text += sample().text(token);
  EXPECT_TRUE(std::string("hello world").starts_with(text)) << text;
  EXPECT_GT(text.size(), 4u);
  // The mask allows only the first forced token.
  EXPECT_EQ(allowed(matcher), std::vector<int32_t>{forced.front()});
  matcher.consume(forced);
  EXPECT_FALSE(matcher.stopped());
}

TEST(Matcher, ForcedTokensGiveTheSameTextAsMasks) {
  const std::string schema =
      R"({"type":"object","properties":{"name":{"const":"hello world"},"age":{"enum":[12,345]},
          "city":{"type":"boolean"}},"required":["name","age","city"]})";
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round) {
    Matcher one = matcher_of(GrammarKind::kJsonSchema, schema);
    Matcher other = one;
    std::vector<int32_t> forced_text;
    const auto seed = static_cast<uint32_t>(random());
    // Writes the first text with forced tokens.
    std::mt19937 choice(seed);
    while (!one.stopped()) {
      std::vector<int32_t> tokens = one.forced();
      if (tokens.empty()) {
        const std::vector<int32_t> may = allowed(one);
        tokens = {may[choice() % may.size()]};
      }
      one.consume(tokens);
      forced_text.insert(forced_text.end(), tokens.begin(), tokens.end());
    }
    // Writes the second text token by token, with masks.
    choice.seed(seed);
    std::vector<int32_t> text;
    while (!other.stopped()) {
      const std::vector<int32_t> may = allowed(other);
      const int32_t token = may.size() == 1 ? may.front() : may[choice() % may.size()];
      other.consume({&token, 1});
      text.push_back(token);
    }
    EXPECT_EQ(text, forced_text);
  }
}

TEST(Matcher, MasksEqualTheTokensThatAreAccepted) {
  const std::pair<GrammarKind, std::string> grammars[] = {
      {GrammarKind::kJsonObject, ""},
      {GrammarKind::kJsonSchema,
       R"({"type":"array","items":{"anyOf":[{"type":"string","maxLength":5},{"type":"number"}]}})"},
      {GrammarKind::kRegex, "(ab|abc|aa)*[0-9a-c]{2,5}"},
      {GrammarKind::kGbnf, "root ::= \"a\" root \"b\" | \"abc\" root | [a-c]"},
  };
  std::mt19937 random(9);
  for (const auto& [kind, text] : grammars) {
    Matcher matcher = matcher_of(kind, text);
    for (int step = 0; step < 40 && !matcher.stopped(); ++step) {
      if (!matcher.forced().empty()) {  // the mask allows only one of several accepted tokens
        matcher.consume(matcher.forced());
        continue;
      }
      const std::vector<int32_t> tokens = allowed(matcher);
      for (int32_t token = 0; token < sample().control; ++token) {
        const bool is_allowed = std::ranges::binary_search(tokens, token);
        EXPECT_EQ(matcher.n_allowed({&token, 1}) == 1, is_allowed)
            << text << " token " << sample().text(token);
      }
      const int32_t token = tokens[random() % tokens.size()];
      if (token == sample().end) break;
      matcher.consume({&token, 1});
    }
  }
}

TEST(Matcher, CopiesAreIndependent) {
  Matcher one = matcher_of(GrammarKind::kRegex, "[ab]{4}");
  const std::vector<int32_t> a = {'a', 'a'};
  one.consume(a);
  Matcher other = one;
  other.consume(a);
  EXPECT_TRUE(other.stopped());
  EXPECT_FALSE(one.stopped());
  one.reset();
  EXPECT_TRUE(matches(one, "abab"));
}

TEST(Matcher, RefusesATokenThatTheGrammarDoesNotAllow) {
  Matcher matcher = matcher_of(GrammarKind::kRegex, "[ab]+");
  const int32_t token = 'x';
  EXPECT_THROW(matcher.consume({&token, 1}), Error);
}

TEST(Matcher, ReadsLlamaCppsJsonGrammar) {
  const char* json = R"gbnf(
# The grammar that llama.cpp's users know.
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

ws ::= | " " | "\n" [ \t]{0,20}
)gbnf";
  Matcher matcher = matcher_of(GrammarKind::kGbnf, json);
  EXPECT_TRUE(matches(matcher, R"({"a": [1, 2.5e3, "x\"y", {"b":null}],
  "c": true})"));
  EXPECT_FALSE(matches(matcher, R"({"a":})"));
  EXPECT_FALSE(matches(matcher, R"([1])"));
  std::mt19937 random(4);
  size_t n_ended = 0;
  for (int i = 0; i < 60; ++i) {
    matcher.reset();
    const std::string text = walk(matcher, random);
    if (text.ends_with("...")) continue;
    ++n_ended;
    EXPECT_TRUE(parsed(text).is_object()) << text;
  }
  EXPECT_GT(n_ended, 20u);
}

// A random GBNF grammar over "abc", and its texts of up to kLength bytes.
class RandomGrammar {
 public:
  static constexpr size_t kLength = 5;
  using Texts = std::set<std::string>;

  explicit RandomGrammar(uint32_t seed) : random_(seed) {
    for (size_t rule = 0; rule < 3; ++rule) bodies_.push_back(make(3));
  }

  std::string gbnf() const {
    const char* names[] = {"root", "b", "c"};
    std::string text;
    for (size_t rule = 0; rule < bodies_.size(); ++rule)
      text += std::string(names[rule]) + " ::= " + written(bodies_[rule]) + "\n";
    return text;
  }

  // Returns the texts of the root rule. Adds texts to all rules until no rule has a new text.
  Texts texts() const {
    std::vector<Texts> known(bodies_.size());
    for (;;) {
      std::vector<Texts> next;
      for (const Node& body : bodies_) next.push_back(texts_of(body, known));
      if (next == known) return known.front();
      known = std::move(next);
    }
  }

 private:
  struct Node {
    enum class Kind { kLiteral, kClass, kSequence, kChoice, kRepeat, kRule } kind{};
    std::string text{};  // of a literal, or the characters of a class
    std::vector<Node> parts{};
    size_t min = 0;
    size_t max = 0;  // 0: unlimited
    size_t rule = 0;
  };

  std::string letters(size_t n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += static_cast<char>('a' + random_() % 3);
    return text;
  }

  Node make(size_t depth) {
    const size_t kind = random_() % (depth == 0 ? 3 : 8);
    if (kind == 0) return {.kind = Node::Kind::kLiteral, .text = letters(random_() % 4)};
    if (kind == 1) return {.kind = Node::Kind::kClass, .text = letters(1 + random_() % 2)};
    if (kind == 2) return {.kind = Node::Kind::kRule, .rule = random_() % 3};
    Node node;
    if (kind == 3) {
      node.kind = Node::Kind::kRepeat;
      node.min = random_() % 3;
      node.max = random_() % 2 == 0 ? 0 : std::max<size_t>(1, node.min + random_() % 2);
      node.parts.push_back(make(depth - 1));
      return node;
    }
    node.kind = kind < 6 ? Node::Kind::kSequence : Node::Kind::kChoice;
    for (size_t i = 0; i < 2 + random_() % 2; ++i) node.parts.push_back(make(depth - 1));
    return node;
  }

  static std::string written(const Node& node) {
    const char* names[] = {"root", "b", "c"};
    std::string text;
    switch (node.kind) {
      case Node::Kind::kLiteral:
        return "\"" + node.text + "\"";
      case Node::Kind::kClass:
        return "[" + node.text + "]";
      case Node::Kind::kRule:
        return names[node.rule];
      case Node::Kind::kRepeat:
        return "(" + written(node.parts.front()) + "){" + std::to_string(node.min) + "," +
               (node.max == 0 ? "" : std::to_string(node.max)) + "}";
      case Node::Kind::kSequence:
      case Node::Kind::kChoice:
        for (const Node& part : node.parts)
          text +=
              (text.empty() || node.kind == Node::Kind::kSequence ? " " : " | ") + written(part);
        return "(" + text + " )";
    }
    return text;
  }

  static Texts joined(const Texts& one, const Texts& other) {
    Texts all;
    for (const std::string& a : one)
      for (const std::string& b : other)
        if (a.size() + b.size() <= kLength) all.insert(a + b);
    return all;
  }

  static Texts texts_of(const Node& node, const std::vector<Texts>& known) {
    Texts all;
    switch (node.kind) {
      case Node::Kind::kLiteral:
        if (node.text.size() <= kLength) all.insert(node.text);
        return all;
      case Node::Kind::kClass:
        for (const char c : node.text) all.insert(std::string(1, c));
        return all;
      case Node::Kind::kRule:
        return known[node.rule];
      case Node::Kind::kSequence:
        all.insert("");
        for (const Node& part : node.parts) all = joined(all, texts_of(part, known));
        return all;
      case Node::Kind::kChoice:
        for (const Node& part : node.parts) all.merge(texts_of(part, known));
        return all;
      case Node::Kind::kRepeat: {
        const Texts part = texts_of(node.parts.front(), known);
        Texts some = {""};
        const size_t max = node.max == 0 ? node.min + kLength : node.max;
        for (size_t n = 0; n <= max; ++n) {
          if (n >= node.min) all.insert(some.begin(), some.end());
          some = joined(some, part);
        }
        return all;
      }
    }
    return all;
  }

  std::mt19937 random_;
  std::vector<Node> bodies_;
};

TEST(Gbnf, MatchesTheTextsOfTheGrammarAndNoOthers) {
  std::vector<std::string> all = {""};
  for (size_t begin = 0, length = 0; length < RandomGrammar::kLength; ++length) {
    const size_t end = all.size();
    for (; begin < end; ++begin)
      for (const char c : {'a', 'b', 'c'}) all.push_back(all[begin] + c);
  }
  size_t n_grammars = 0;
  size_t n_texts = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const RandomGrammar grammar(seed);
    const RandomGrammar::Texts texts = grammar.texts();
    std::optional<Matcher> matcher;
    try {
      matcher.emplace(vocabulary(), Grammar{GrammarKind::kGbnf, grammar.gbnf()});
    } catch (const Error& error) {
      EXPECT_TRUE(texts.empty()) << error.what() << "\n" << grammar.gbnf();
      continue;
    }
    ++n_grammars;
    n_texts += texts.size();
    for (const std::string& text : all) {
      const bool is_in = texts.contains(text);
      ASSERT_EQ(matches(*matcher, text), is_in) << "\"" << text << "\" seed " << seed << "\n"
                                                << grammar.gbnf();
    }
  }
  EXPECT_GT(n_grammars, 100u);
  EXPECT_GT(n_texts, 1000u);
}

}  // namespace
}  // namespace billow::constraint
