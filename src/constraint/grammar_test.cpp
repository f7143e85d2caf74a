#include "constraint/grammar.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace billow::constraint {
namespace {

// Returns "", or the code and the message of the Error from check().
std::string verdict(const Grammar& grammar) {
  try {
    check(grammar);
    return "";
  } catch (const Error& error) {
    return std::string(error_code_name(error.code())) + ": " + error.what();
  }
}

TEST(Grammar, FindsKindsByTheirNames) {
  for (const char* name : {"json_object", "json_schema", "regex", "lark", "gbnf"}) {
    const auto kind = find_grammar_kind(name);
    ASSERT_TRUE(kind) << name;
    EXPECT_STREQ(grammar_kind_name(*kind), name);
  }
  EXPECT_FALSE(find_grammar_kind("yaml"));
}

TEST(Grammar, AcceptsSupportedGrammars) {
  const Grammar good[] = {
      {GrammarKind::kJsonObject, ""},
      {GrammarKind::kJsonSchema, R"({"type":"object","properties":{"a":{"type":"string"}}})"},
      {GrammarKind::kJsonSchema, "true"},
      {GrammarKind::kJsonSchema, R"({"type":"array","uniqueItems":false})"},
      {GrammarKind::kJsonSchema, R"({"oneOf":[{"type":"string"},{"type":"integer"}]})"},
      // JSON Schema ignores a format that it does not define.
      {GrammarKind::kJsonSchema, R"({"type":"string","format":"password"})"},
      // Keywords inside values are ignored.
      {GrammarKind::kJsonSchema, R"({"enum":[{"not":1}],"default":{"if":2}})"},
      {GrammarKind::kJsonSchema, R"({"properties":{"not":{"type":"string"}}})"},
      // Zod writes its records so. Every name of a property is a string.
      {GrammarKind::kJsonSchema,
       R"({"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"number"}})"},
      {GrammarKind::kJsonSchema, R"({"type":"object","propertyNames":{}})"},
      {GrammarKind::kJsonSchema, R"({"type":"object","unevaluatedProperties":{}})"},
      {GrammarKind::kRegex, "^[a-z]+(b|c)$"},
      {GrammarKind::kRegex, "a{1,100000}"},
      {GrammarKind::kLark, "start: \"a\" b\nb: /[0-9]+/"},
      {GrammarKind::kLark, "start: \"<a>\" /\\/<b>/ // <c>"},
      {GrammarKind::kGbnf, "root ::= \"a\" root | \"b\""},
  };
  for (const Grammar& grammar : good) EXPECT_EQ(verdict(grammar), "") << grammar.text;
}

TEST(Grammar, NamesTheProblemInOneLine) {
  struct Case {
    Grammar grammar;
    const char* verdict;
  };
  const Case cases[] = {
      {{GrammarKind::kJsonSchema, R"({"properties":{"a/b":{"not":{"type":"string"}}}})"},
       "unsupported: grammar (json_schema): JSON Schema keyword \"not\" at #/properties/a~1b is "
       "not supported"},
      {{GrammarKind::kJsonSchema, R"({"items":{"type":"array","uniqueItems":true}})"},
       "unsupported: grammar (json_schema): JSON Schema keyword \"uniqueItems\" at #/items is not "
       "supported"},
      {{GrammarKind::kJsonSchema, R"({"propertyNames":{"type":"string","maxLength":3}})"},
       "unsupported: grammar (json_schema): JSON Schema keyword \"propertyNames\" at # is not "
       "supported"},
      {{GrammarKind::kJsonSchema, R"({"$defs":{"x":{"if":true}}})"},
       "unsupported: grammar (json_schema): JSON Schema keyword \"if\" at #/$defs/x is not "
       "supported"},
      {{GrammarKind::kJsonSchema, R"({"anyOf":[{"type":"string","format":"regex"}]})"},
       "unsupported: grammar (json_schema): JSON Schema format \"regex\" at #/anyOf/0 is not "
       "supported"},
      {{GrammarKind::kJsonSchema, R"({"$ref":"https://example.org/s"})"},
       "unsupported: grammar (json_schema): JSON Schema reference \"https://example.org/s\" at # "
       "is not supported"},
      {{GrammarKind::kJsonSchema, R"({"oneOf":[{"type":"string"},{"maxLength":3}]})"},
       "unsupported: grammar (json_schema): JSON Schema keyword \"oneOf\" is supported only where "
       "no two of its schemas can be valid at the same time; use \"anyOf\""},
      {{GrammarKind::kJsonSchema, R"({"type":"string","pattern":"(?=a)b"})"},
       "invalid_input: grammar (json_schema): look-around, including look-ahead and look-behind, "
       "is not supported"},
      {{GrammarKind::kJsonSchema, R"({"enum":[]})"},
       "invalid_input: grammar (json_schema): Unsatisfiable schema: anyOf is empty"},
      {{GrammarKind::kJsonSchema, "nope"},
       "invalid_input: grammar (json_schema): the schema is not JSON: expected ident at line 1 "
       "column 2"},
      {{GrammarKind::kJsonSchema, "[]"},
       "invalid_input: grammar (json_schema): the schema must be a JSON object or true"},
      {{GrammarKind::kRegex, "(a|b"}, "invalid_input: grammar (regex): unclosed group"},
      {{GrammarKind::kLark, "start: <|im_end|>"},
       "unsupported: grammar (lark): a grammar cannot have tokens of a vocabulary (<...>)"},
      {{GrammarKind::kLark, "start: \"<a>\" /<b>/ // <c>\n  <[5]>"},
       "unsupported: grammar (lark): a grammar cannot have tokens of a vocabulary (<...>)"},
      {{GrammarKind::kLark, "start: \"a\" c"},
       "invalid_input: grammar (lark): at 1(8): unknown name: \"c\""},
      {{GrammarKind::kLark, "\xff"}, "invalid_input: grammar (lark): the grammar is not UTF-8"},
      {{GrammarKind::kRegex, std::string(1000, '(') + std::string(1000, ')')},
       "too_large: grammar (regex): parentheses nested deeper than 200"},
      {{GrammarKind::kRegex, std::string(kMaxGrammarBytes + 1, 'a')},
       "too_large: grammar (regex): 1048577 bytes, more than 1048576"},
      {{GrammarKind::kGbnf, "root ::= x"},
       "invalid_input: grammar (gbnf): rule \"x\" is not defined"},
      {{GrammarKind::kGbnf, "\nroot ::= \"a\n"},
       "invalid_input: grammar (gbnf): line 2: a string has no end"},
      {{GrammarKind::kGbnf, "root ::= \"a\\\n\""},
       "invalid_input: grammar (gbnf): line 1: a string has no end"},
      {{GrammarKind::kGbnf, "root ::= \"\\\x0b\""},
       "invalid_input: grammar (gbnf): line 1: unknown escape \\ "},
      {{GrammarKind::kGbnf, "root ::= \"a\" root"},
       "invalid_input: grammar (gbnf): rule \"root\" matches no text that ends"},
      {{GrammarKind::kGbnf, "r ::= \"a\""},
       "invalid_input: grammar (gbnf): there is no rule \"root\""},
      {{GrammarKind::kGbnf, "root ::= <think>"},
       "invalid_input: grammar (gbnf): line 1: a grammar cannot have tokens of a vocabulary "
       "(<...>)"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(verdict(c.grammar), c.verdict) << c.grammar.text.substr(0, 99);
}

TEST(Grammar, HostileGrammarsEndSoon) {
  const auto nested = [](size_t n, const std::string& before, const std::string& after) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += before;
    text += "true";
    for (size_t i = 0; i < n; ++i) text += after;
    return text;
  };
  std::string doubling = "root ::= a0 root | \"x\"\n";
  for (int i = 0; i < 60; ++i)
    doubling += "a" + std::to_string(i) + " ::= a" + std::to_string(i + 1) + " a" +
                std::to_string(i + 1) + "\n";
  const Grammar bad[] = {
      {GrammarKind::kJsonSchema, nested(100'000, R"({"items":)", "}")},
      {GrammarKind::kJsonSchema,
       R"({"type":"array","minItems":1000000000,"items":{"type":"null"}})"},
      {GrammarKind::kJsonSchema, R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}})"},
      {GrammarKind::kGbnf, doubling + "a60 ::= \"y\"\n"},
      {GrammarKind::kGbnf, doubling + "a60 ::= \"y\"?\n"},
      {GrammarKind::kGbnf, "root ::= \"a\"" + std::string(1000, '*')},
      {GrammarKind::kRegex, "((((a{1,1000}){1,1000}){1,1000}){1,1000}){1,1000}b"},
  };
  for (const Grammar& grammar : bad) {
    (void)verdict(grammar);  // any result is fine, but the next check must still work
    EXPECT_EQ(verdict({GrammarKind::kJsonObject, ""}), "");
  }
}

TEST(Constraint, FieldsThatNeedAMarkerAreRefusedWithoutIt) {
  const auto verdict_of = [](const Constraint& constraint) -> std::string {
    try {
      check(constraint);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(
      verdict_of(
          {.grammar = {}, .starts_after = "</think>", .opens_with = "<think>", .starts_within = 9}),
      "");
  EXPECT_EQ(verdict_of({.grammar = {}, .opens_with = "<think>"}),
            "constraint: opens_with needs starts_after");
  EXPECT_EQ(verdict_of({.grammar = {}, .forced_next = "a"}),
            "constraint: forced_next needs starts_after");
  EXPECT_EQ(verdict_of({.grammar = {}, .starts_within = 3}),
            "constraint: starts_within needs starts_after");
  EXPECT_EQ(verdict_of({.grammar = {}, .may_not_start = true}),
            "constraint: may_not_start needs starts_after");
  EXPECT_EQ(verdict_of({.grammar = {}, .starts_after = std::string(2000, 'x')}),
            "constraint: starts_after, forced_next, opens_with and repeats_after may have at most "
            "1024 bytes");
  Constraint repeating = {
      .grammar = {}, .starts_after = "<a>", .may_not_start = true, .repeats_after = "</a>"};
  EXPECT_EQ(verdict_of(repeating), "");
  repeating.starts_within = 1;
  EXPECT_EQ(verdict_of(repeating), "constraint: repeats_after excludes starts_within");
  repeating.may_not_start = false;
  EXPECT_EQ(verdict_of(repeating), "constraint: repeats_after needs may_not_start");
}

}  // namespace
}  // namespace billow::constraint
