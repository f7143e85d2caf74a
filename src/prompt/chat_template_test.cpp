#include "prompt/chat_template.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace billow::prompt {
namespace {

std::string render(const std::string& source, const Json& input = Json::object()) {
  return ChatTemplate(source).render(input);
}

// Returns the error message for `source`, or "" if there is no error.
std::string refusal(const std::string& source, const Json& input = Json::object()) {
  try {
    render(source, input);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput) << error.what();
    return error.what();
  }
  return "";
}

TEST(ChatTemplate, RendersMessages) {
  const Json input{{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
                   {"add_generation_prompt", true}};
  EXPECT_EQ(render("{% for m in messages %}<|{{ m.role }}|>{{ m['content'] }}{% endfor %}"
                   "{% if add_generation_prompt %}<|assistant|>{% endif %}",
                   input),
            "<|user|>Hi<|assistant|>");
}

TEST(ChatTemplate, TrimsBlocksAndTheLastLineEnd) {
  EXPECT_EQ(render("{% if true %}\n  a\n  {% endif %}\nb\n"), "  a\nb");
  EXPECT_EQ(render("{# note #}\na\r\nb\r\n"), "a\nb");
}

TEST(ChatTemplate, RaiseExceptionIsAnErrorWithItsLine) {
  EXPECT_EQ(refusal("\n\n{{ raise_exception('No system role') }}"),
            "chat template line 3: No system role");
}

TEST(ChatTemplate, SyntaxErrorsNameTheirLine) {
  EXPECT_EQ(refusal("a\n{% if %}").rfind("chat template line 2: syntax error", 0), 0U);
  EXPECT_NE(refusal("{{ x | no_such }}").find("no_such"), std::string::npos);
}

TEST(ChatTemplate, ErrorsAreOneLine) {
  const std::string message = refusal("{{ raise_exception('a\\nb') }}");
  EXPECT_EQ(message, "chat template line 1: a b");
}

TEST(ChatTemplate, TojsonMatchesPython) {
  const Json input{{"x", {{"b", 1.0}, {"a", {1, nullptr, true}}, {"u", "ä\"<\n"}}}};
  EXPECT_EQ(render("{{ x | tojson }}", input),
            R"({"b": 1.0, "a": [1, null, true], "u": "ä\"<\n"})");
  EXPECT_EQ(render("{{ x.a | tojson(indent=2) }}", input), "[\n  1,\n  null,\n  true\n]");
  EXPECT_EQ(render("{{ x | tojson(separators=(',', ':'), sort_keys=true) }}", input),
            R"({"a":[1,null,true],"b":1.0,"u":"ä\"<\n"})");
  EXPECT_EQ(render("{{ x.u | tojson(ensure_ascii=True) }}", input), R"("\u00e4\"<\n")");
  EXPECT_EQ(render("{{ {} | tojson(indent=2) }}{{ [] | tojson(indent=2) }}"), "{}[]");
  EXPECT_NE(refusal("{{ nothing | tojson }}"), "");
}

TEST(ChatTemplate, StrftimeNowUsesAGivenClock) {
  const Json input{{"strftime_now", "2026-07-26T12:30:00"}};
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y %A %j %H:%M:%S%z') }}", input),
            "26 Jul 2026 Sunday 207 12:30:00");
  EXPECT_EQ(render("{{ strftime_now('%Y') | length }}"), "4");
  EXPECT_NE(refusal("x", {{"strftime_now", "2026-02-30T12:30:00"}}), "");
  EXPECT_NE(refusal("x", {{"strftime_now", 5}}), "");
}

TEST(ChatTemplate, GenerationBlocksAreScopes) {
  EXPECT_EQ(render("{%- generation -%} {% set x = 1 %}a{{ x }} {%- endgeneration %}{{ x }}"), "a1");
  // Only the tag opens a block. The same text in a string, a comment or a raw block does not, and
  // neither does a variable of that name.
  EXPECT_EQ(render("{{ '{% generation %}' }}{# {% generation %} #}"
                   "{% raw %}{% generation %}{% endraw %}{% set generation = 1 %}{{ generation }}"),
            "{% generation %}{% generation %}1");
}

TEST(ChatTemplate, TestsAndLengthMatchJinja2) {
  const Json input{{"l", {1}}, {"d", Json::object()}, {"s", "x"}, {"n", nullptr}};
  EXPECT_EQ(render("{{ [l is iterable, d is iterable, s is iterable, n is iterable, 1 is iterable, "
                   "u is iterable] }}",
                   input),
            "[True, True, True, False, False, True]");
  EXPECT_EQ(render("{{ [l is sequence, d is sequence, s is sequence, n is sequence] }}", input),
            "[True, True, True, False]");
  EXPECT_EQ(render("{{ nothing | length }}{{ l | length }}{{ s | count }}", input), "011");
  EXPECT_NE(refusal("{{ n | length }}", input), "");
}

TEST(ChatTemplate, StringMethodsTakePythonsArguments) {
  EXPECT_EQ(render("{{ 'a  b c'.split(None, 1) }}"), "['a', 'b c']");
  EXPECT_EQ(render("{{ 'a,b,c'.rsplit(',', maxsplit=1) }}"), "['a,b', 'c']");
  EXPECT_EQ(render("{{ '--x-'.lstrip('-') }}{{ ' \\n x '.strip() }}"), "x-x");
  EXPECT_EQ(render("{{ 'abc'.startswith(('x', 'b'), 1) }}"), "True");
  EXPECT_EQ(render("{{ 'äbcb'.find('b', 2) }}{{ 'abc'.find('z') }}"), "3-1");
  EXPECT_EQ(render("{{ 'a-b'.partition('-')[2] }}{{ 'xay'.removeprefix('x') }}"), "bay");
  EXPECT_NE(refusal("{{ 'a'.split('') }}"), "");
  EXPECT_NE(refusal("{{ ','.join([1]) }}"), "");
}

TEST(ChatTemplate, TemplateListsChangeInPlaceButInputListsDoNot) {
  EXPECT_EQ(render("{% set ns = namespace(ids=[]) %}{% for i in [1, 2, 3] %}"
                   "{% set _ = ns.ids.append('n' ~ i) %}{% endfor %}"
                   "{{ ns.ids.pop(0) }}{{ ns.ids }}{{ ns.ids | length }}"),
            "n1['n2', 'n3']2");
  EXPECT_EQ(render("{% set x = [[1]] %}{% set _ = x.append(x) %}{{ x }}"), "[[1], [[1]]]");
  EXPECT_NE(refusal("{% set _ = l.append(1) %}", {{"l", {1}}}), "");
}

TEST(ChatTemplate, SlicesWithAStepMatchPython) {
  const Json input{{"l", {0, 1, 2, 3}}, {"e", Json::array()}};
  EXPECT_EQ(render("{{ l[::-1] }}{{ e[::-1] }}{{ l[2:0:-1] }}{{ l[0:0:-1] }}{{ l[::2] }}", input),
            "[3, 2, 1, 0][][2, 1][][0, 2]");
  EXPECT_EQ(render("{{ 'abc'[::-1] }}{{ 'abc'[1:][::-1][0] }}"), "cbac");
  EXPECT_NE(refusal("{{ l[::0] }}", input), "");
}

TEST(ChatTemplate, ValuesPrintAsInPython) {
  const Json input{{"x", {{"a", {1.5, 1e16, nullptr, true, "it's"}}, {"b", 1e-7}}}};
  EXPECT_EQ(render("{{ x }}", input), R"({'a': [1.5, 1e+16, None, True, "it's"], 'b': 1e-07})");
  EXPECT_EQ(render("{{ x.a[1] }} {{ (1,) }} {{ '\\U0001F642' }}", input), "1e+16 (1,) 🙂");
}

TEST(ChatTemplate, SupportsFromJsonNamespaceAndLoopControls) {
  EXPECT_EQ(render("{{ (t | from_json).a[1] }}", {{"t", R"({"a": [1, 2]})"}}), "2");
  EXPECT_NE(refusal("{{ '{' | from_json }}"), "");
  EXPECT_EQ(render("{% set ns = namespace(n=0) %}{% for i in range(9) %}{% if i == 1 %}"
                   "{% continue %}{% elif i == 4 %}{% break %}{% endif %}{% set ns.n = ns.n + i %}"
                   "{% endfor %}{{ ns.n }}"),
            "5");
}

TEST(ChatTemplate, MethodsOfAnObjectComeBeforeItsMembers) {
  const Json input{{"schema", {{"items", {{"type", "string"}}}}}};
  EXPECT_EQ(render("{% for k, v in schema.items() %}{{ k }}={{ v.type }}{% endfor %}", input),
            "items=string");
}

TEST(ChatTemplate, ReplacesInvalidUtf8InInput) {
  EXPECT_EQ(render("{{ x }}", {{"x", "a\xFF"}}), "a\xEF\xBF\xBD");
}

TEST(ChatTemplate, RefusesATemplateThatIsNotUtf8) {
  EXPECT_EQ(refusal("a\xFF"), "chat template: the template is not UTF-8");
}

TEST(ChatTemplate, RendersOnManyThreads) {
  const ChatTemplate chat("{% for m in messages %}[{{ m }}]{% endfor %}");
  std::vector<std::thread> threads;
  std::vector<std::string> results(8);
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&chat, &results, t] {
      for (int i = 0; i < 20; ++i) results[t] = chat.render({{"messages", {t, t + 1}}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < results.size(); ++t) {
    EXPECT_EQ(results[t], "[" + std::to_string(t) + "][" + std::to_string(t + 1) + "]");
  }
}

}  // namespace
}  // namespace billow::prompt
