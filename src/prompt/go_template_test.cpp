// Tests what templates print. The expected texts are the output of Go 1.26's text/template.
#include "prompt/go_template.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "prompt/go/value.h"

namespace billow::prompt {
namespace {

const char kData[] = R"({
  "a": null, "s": "hello", "n": 5, "z": 0, "f": 1.5, "big": 1000000.0, "t": true, "e": "",
  "l": [1, "x", null, 2.5], "el": [], "em": {},
  "m": {"k": 1, "j": "q", "b": {"c": [1, 2]}},
  "u": "h\u00e9 \u2028 \"q\" <a> & ' \\ \n=",
  "Messages": [{"Role": "system", "Content": "S"}, {"Role": "user", "Content": "U"},
               {"Role": "assistant", "Content": "A"}],
  "Response": ""})";

std::string render(const std::string& source) {
  return GoTemplate(source).render(go::from_json(Json::parse(kData)));
}

// Returns the error message for `source`, or "" if there is no error.
std::string refusal(const std::string& source) {
  try {
    render(source);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput) << error.what();
    return error.what();
  }
  return "";
}

using Table = std::vector<std::pair<std::string, std::string>>;

void expect_all(const Table& table) {
  for (const auto& [source, expected] : table) {
    try {
      EXPECT_EQ(render(source), expected) << source;
    } catch (const Error& error) {
      ADD_FAILURE() << source << ": " << error.what();
    }
  }
}

TEST(GoTemplate, PrintsValuesAsGoDoes) {
  expect_all({
      {"plain {text} }}", "plain {text} }}"},
      {"{{ .s }} {{ .n }} {{ .f }} {{ .big }} {{ .t }}|{{ .e }}|", "hello 5 1.5 1e+06 true||"},
      {"{{ .l }} {{ .m }} {{ .el }} {{ .em }}",
       "[1 x <nil> 2.5] map[b:map[c:[1 2]] j:q k:1] [] map[]"},
      {"{{ .a }} {{ .missing }} {{ print .missing }}", "<no value> <no value> <nil>"},
      {"{{ $ }}{{ . | len }}", render("{{ . }}") + "15"},
      {"{{ .m.b.c }} {{ $.m.k }} {{ (index .Messages 1).Role }} {{ $x := .m }}{{ $x.b.c }}",
       "[1 2] 1 user [1 2]"},
  });
}

TEST(GoTemplate, TrimsBlanksAndDropsComments) {
  expect_all({
      {"a  {{- .s -}}  b {{- /* c */ -}} d {{/* c\n}} */}} e {{- \"x\" }}", "ahellobd  ex"},
      {"{{- range .Messages }}\n  {{- .Role }},\n{{- end }}\n", "system,user,assistant,\n"},
      {"{{-3}} {{.s -}} \n x", "-3 hellox"},
      {"{{ .s -}}", "hello"},
      {"{{\n.s\n}}", "hello"},
  });
}

TEST(GoTemplate, ReadsLiterals) {
  expect_all({
      {"{{ 1.5 }} {{ 1e3 }} {{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 017 }} {{ 1_000 }}",
       "1.5 1000 31 3 15 15 1000"},
      {"{{ -3 }} {{ +4 }} {{ 0x1p4 }} {{ .5 }} {{ 1. }} {{ true }} {{ false }}",
       "-3 4 16 0.5 1 true false"},
      {"{{ 'a' }} {{ '\\n' }} {{ '\\'' }} {{ 'ä' }} {{ '\\u00e4' }}", "97 10 39 228 228"},
      {"{{ `raw\\n` }}{{ \"tab\\t\\\"\\u00e9\\x41\\101\" }}", "raw\\ntab\t\"éAA"},
      {"{{ 9223372036854775807 }} {{ -9223372036854775808 }}",
       "9223372036854775807 -9223372036854775808"},
  });
}

TEST(GoTemplate, BranchesByTruth) {
  expect_all({
      {"{{ if .s }}y{{ else }}n{{ end }}{{ if .e }}y{{ else if .z }}z{{ else if .t }}t{{ end }}",
       "yt"},
      {"{{ if .a }}1{{ end }}{{ if .el }}2{{ end }}{{ if .em }}3{{ end }}{{ if .missing }}4{{ end "
       "}}",
       ""},
      {"{{ with .m }}{{ .k }}{{ end }}{{ with .e }}x{{ else }}{{ .s }}{{ end }}", "1hello"},
      {"{{ with $x := .s }}{{ $x }}{{ . }}{{ end }}{{ with .e }}a{{ else with .n }}{{ . }}{{ end "
       "}}",
       "hellohello5"},
      {"{{ if $x := .e }}{{ else }}[{{ $x }}]{{ end }}", "[]"},
  });
}

TEST(GoTemplate, RangesOverListsMapsAndNumbers) {
  expect_all({
      {"{{ range .l }}[{{ . }}]{{ end }}", "[1][x][<no value>][2.5]"},
      {"{{ range $i, $e := .l }}{{ $i }}={{ $e }};{{ end }}", "0=1;1=x;2=<no value>;3=2.5;"},
      {"{{ range $k, $v := .m }}{{ $k }}:{{ $v }},{{ end }}", "b:map[c:[1 2]],j:q,k:1,"},
      {"{{ range 3 }}{{ . }}{{ end }}{{ range $i := 2 }}{{ $i }}{{ end }}", "01201"},
      {"{{ range .el }}x{{ else }}none{{ end }}{{ range 0 }}{{ else }}0{{ end }}", "none0"},
      {"{{ range .a }}x{{ else }}none{{ end }}", "none"},
      {"{{ range $i, $_ := .l }}{{ if eq $i 1 }}{{ continue }}{{ end }}"
       "{{ if gt $i 2 }}{{ break }}{{ end }}{{ $i }}{{ end }}",
       "02"},
      {"{{ range .l }}{{ range $.l }}{{ break }}{{ end }}.{{ end }}", "...."},
  });
}

TEST(GoTemplate, VariablesHaveScopes) {
  expect_all({
      {"{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $y := 3 }}{{ $y }}{{ end }}{{ $x }}", "32"},
      {"{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ end }}{{ $x }}", "1"},
      {"{{ $x := 0 }}{{ range .l }}{{ $x = . }}{{ end }}{{ $x }}", "2.5"},
      {"{{ $i := 0 }}{{ $x := 0 }}{{ range $i, $x = .l }}{{ end }}{{ $i }}{{ $x }}", "32.5"},
  });
}

TEST(GoTemplate, DefinesTemplates) {
  expect_all({
      {"{{ define \"t\" }}<{{ . }}>{{ end }}{{ template \"t\" .s }}{{ template \"t\" }}",
       "<hello><<no value>>"},
      {"{{ block \"b\" .m }}{{ .k }}{{ end }}", "1"},
      {"{{ define \"r\" }}{{ if . }}{{ len . }}{{ template \"r\" (slice . 1) }}{{ end }}{{ end }}"
       "{{ template \"r\" .l }}",
       "4321"},
  });
}

TEST(GoTemplate, CallsFunctions) {
  expect_all({
      {"{{ eq .n 4 5 }} {{ ne .n 5 }} {{ lt 1 2 }} {{ le 2 2 }} {{ gt 1 2 }} {{ ge 2 2 }}",
       "true false true true false true"},
      {"{{ eq .a nil }} {{ eq .missing .a }} {{ eq .a 1 }} {{ eq .el nil }}",
       "true true false true"},
      {"{{ and .s .n }} {{ and .e .s }} {{ or .e .s }} {{ or .e .z }} {{ not .s }}",
       "5  hello 0 false"},
      {"{{ and .e (index .l 99) }}{{ or .s (index .l 99) }}", "hello"},
      {"{{ if eq 1 1 | not }}a{{ else }}b{{ end }} {{ (len .s) | printf \"%d\" }}", "b 5"},
      {"{{ index .l 1 }} {{ index .m \"k\" }} {{ index .m \"no\" }} {{ index .m \"b\" \"c\" 1 }} "
       "{{ index .s 1 }}",
       "x 1 <no value> 2 101"},
      {"{{ slice .s 1 3 }} {{ slice .l 1 }} {{ slice .l 1 2 }} {{ slice .s }}",
       "el [x <nil> 2.5] [x] hello"},
      {"{{ slice (slice .l 0 1) 0 3 }}", "[1 x <nil>]"},
      {"{{ range $i, $_ := .Messages }}{{ if eq (len (slice $.Messages $i)) 1 }}{{ .Role }}{{ end "
       "}}"
       "{{ end }}",
       "assistant"},
      {"{{ print 1 2 \"a\" .l .a nil }}|{{ println .s .n }}",
       "1 2a[1 x <nil> 2.5] <nil> <nil>|hello 5\n"},
      {"{{ html .u }}", "hé \u2028 &#34;q&#34; &lt;a&gt; &amp; &#39; \\ \n="},
      {"{{ js .u }}", "hé \\u2028 \\\"q\\\" \\u003Ca\\u003E \\u0026 \\' \\\\ \\u000A\\u003D"},
      {"{{ urlquery .u }}", "h%C3%A9+%E2%80%A8+%22q%22+%3Ca%3E+%26+%27+%5C+%0A%3D"},
      {"{{ json .m }} {{ json .u }} {{ json .a }} {{ json .big }} {{ json 1e21 }} {{ json 1e-7 }}",
       R"({"b":{"c":[1,2]},"j":"q","k":1} "hé \u2028 \"q\" \u003ca\u003e \u0026 ' \\ \n=" )"
       "null 1000000 1e+21 1e-7"},
  });
}

TEST(GoTemplate, PrintfFollowsItsVerbs) {
  expect_all({
      {R"({{ printf "%s %d %v %q %t %f %x %g %5d|%-5s|%05d %%" .s .n .l .s .t .f .s .f .n .e .n }})",
       "hello 5 [1 x <nil> 2.5] \"hello\" true 1.500000 68656c6c6f 1.5     5|     |00005 %"},
      {R"({{ printf "%5s|%-8s|%.2s|%8.3f|%+d|%c|%U" .s .s .s .f .n 65 65 }})",
       "hello|hello   |he|   1.500|+5|A|U+0041"},
      {R"({{ printf "%6.2f|%-6.1f|%06.1f|%+f|%e" .f .f .f .f .f }})",
       "  1.50|1.5   |0001.5|+1.500000|1.500000e+00"},
      {R"({{ printf "%d %s" 1 }} {{ printf "x" 1 "a" nil }} {{ printf "%" }} {{ printf "%z" 1 }})",
       "1 %!s(MISSING) x%!(EXTRA int=1, string=a, <nil>) %!(NOVERB) %!z(int=1)"},
      {R"({{ printf "%d" "a" }} {{ printf "%s" 1 }} {{ printf "%s" nil }} {{ printf "%5d" "a" }})",
       "%!d(string=a) %!s(int=1) %!s(<nil>) %!d(string=    a)"},
      {R"({{ printf "%v|%s|%d|%q" .l .l .l .l }})",
       "[1 x <nil> 2.5]|[%!s(int=1) x <nil> %!s(float64=2.5)]|[1 %!d(string=x) <nil> "
       "%!d(float64=2.5)]|['\\x01' \"x\" <nil> %!q(float64=2.5)]"},
      {R"({{ printf "%x %X %x %#x %o %b" 255 255 "hi" 255 8 5 }} {{ printf "%*d|%.*f" 5 1 2 .f }})",
       "ff FF 6869 0xff 10 101     1|1.50"},
      {R"({{ printf "%*d|%0*d|%*s|%*d|%*d" -5 1 -5 1 -1 "" 0 7 1000001 3 }})",
       "1    |1    | |7|%!(BADWIDTH)3"},
      {R"({{ printf "%.*f|%.*d|%*d" -1 1.5 2000000 3 "x" 4 }} {{ printf "%*d|%-*d|" 4 }})",
       "%!(BADPREC)1.500000|%!(BADPREC)3|%!(BADWIDTH)4 %!d(MISSING)|%!(BADWIDTH)%!d(MISSING)|"},
      {R"({{ printf "%v %v %v" 1.0 100000000.0 0.00001 }} {{ printf "%T %T" 1 "a" }})",
       "1 1e+08 1e-05 int string"},
  });
}

TEST(GoTemplate, DatesComeFromTheGivenClock) {
  setenv("TZ", "UTC", 1);
  tzset();
  const GoTemplate dates("{{ currentDate }} {{ yesterdayDate \"x\" }}{{ .Response }}");
  EXPECT_EQ(dates.render(go::from_json({{"Response", ""}}), GoPart::kAll, 1'709'251'200),
            "2024-03-01 2024-02-29");
}

TEST(GoTemplate, ParseErrorsNameTheLine) {
  const Table table{
      {"a\n{{ end }}", "template: :2: unexpected {{end}}"},
      {"{{ foo }}", "template: :1: function \"foo\" not defined"},
      {"{{ $x }}", "template: :1: undefined variable \"$x\""},
      {"{{ \"a }}", "template: :1: unterminated quoted string"},
      {"{{ .s", "template: :1: unclosed action"},
      {"{{ if .s }}\n\n{{ .s\n", "template: :4: unclosed action started at :3"},
      {"{{ if .s }}", "template: :1: unexpected EOF"},
      {"{{ .s }", "template: :1: unexpected \"}\" in operand"},
      {"{{ (.s }}", "template: :1: unclosed left paren"},
      {"{{ if }}x{{ end }}", "template: :1: missing value for if"},
      {"{{ 1 | 2 }}", "template: :1: non executable command in pipeline stage 2"},
      {"{{ break }}", "template: :1: {{break}} outside {{range}}"},
      {"{{ \"a\".b }}", "template: :1: unexpected . after term \"\\\"a\\\"\""},
      {"{{ define \"a\" }}x{{ end }}{{ define \"a\" }}y{{ end }}",
       "template: :1: template: multiple definition of template \"a\""},
      {"{{/* a */ x}}", "template: :1: comment ends before closing delimiter"},
      {"{{ range $a, $b, $c := .l }}{{ end }}", "template: :1: too many declarations in range"},
  };
  for (const auto& [source, expected] : table) EXPECT_EQ(refusal(source), expected) << source;
}

TEST(GoTemplate, RunErrorsNameThePlace) {
  const Table table{
      {"{{ index .l 99 }}",
       "template: :1:3: executing \"\" at <index .l 99>: error calling index: index out of range: "
       "99"},
      {"\n {{ eq .n \"a\" }}",
       "template: :2:4: executing \"\" at <eq .n \"a\">: error calling eq: incompatible types for "
       "comparison: int and string"},
      {"{{ .missing.x }}",
       "template: :1:3: executing \"\" at <.missing.x>: nil pointer evaluating interface {}.x"},
      {"{{ len 3 }}",
       "template: :1:3: executing \"\" at <len 3>: error calling len: len of type int"},
  };
  for (const auto& [source, expected] : table) EXPECT_EQ(refusal(source), expected) << source;
  for (const char* source :
       {"{{ .s.x }}", "{{ lt .l 1 }}", "{{ slice .s 3 1 }}", "{{ index .l -1 }}",
        "{{ index .l 4 }}", "{{ index .m 1 }}", "{{ range .s }}{{ end }}",
        "{{ range $i, $e := .n }}{{ end }}", "{{ template \"no\" }}", "{{ $x = 1 }}", "{{ .s 1 }}",
        "{{ nil }}", "{{ call .s }}", "{{ printf .n }}", "{{ not }}", "{{ ne 1 2 3 }}",
        "{{ len nil }}"}) {
    EXPECT_NE(refusal(source), "") << source;
  }
}

TEST(GoTemplate, CollectsTheFieldsItMentions) {
  const GoTemplate source(
      "{{ range $m := .Messages }}{{ if (and $m.Role (len .Tools)) }}"
      "{{ (index $m.Calls 0).Name }}{{ end }}{{ end }}"
      "{{ define \"x\" }}{{ .Suffix }}{{ end }}");
  EXPECT_EQ(source.variables(),
            (GoTemplate::Names{"Messages", "Role", "Tools", "Calls", "Name", "Suffix"}));
}

TEST(GoTemplate, AppendsAResponseThatItDoesNotMention) {
  const go::Value data = go::from_json({{"Prompt", "P"}, {"Response", "R"}});
  EXPECT_EQ(GoTemplate("{{ .Prompt }}").render(data), "PR");
  EXPECT_EQ(GoTemplate("x{").render(data), "x{R");
  EXPECT_EQ(GoTemplate("{{ .Response }}x").render(data), "Rx");
}

TEST(GoTemplate, CanEndAtTheResponse) {
  const go::Value data = go::from_json({{"Prompt", "P"}, {"Response", "R"}});
  const auto cut = [&](const char* source) {
    return GoTemplate(source).render(data, GoPart::kToResponse);
  };
  EXPECT_EQ(cut("{{ if .Response }}<{{ end }}{{ .Prompt }}[{{ .Response }}]{{ .Prompt }}"), "<P[R");
  EXPECT_EQ(cut("{{ if .Prompt }}a{{ .Response }}b{{ else }}c{{ end }}d"), "aR");
  EXPECT_EQ(cut("{{ if not .Prompt }}a{{ .Response }}b{{ else }}c{{ end }}d"), "");
  EXPECT_EQ(cut("{{ .Prompt }}"), "PR");
}

TEST(GoTemplate, RendersOnManyThreads) {
  const GoTemplate source(
      "{{ range .Messages }}{{ .Role }}{{ printf \"%d\" (len .Content) }}{{ end }}");
  const go::Value data = go::from_json(Json::parse(kData));
  std::vector<std::string> results(8);
  std::vector<std::thread> threads;
  for (std::string& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) result = source.render(data);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT_EQ(result, "system1user1assistant1");
}

}  // namespace
}  // namespace billow::prompt
