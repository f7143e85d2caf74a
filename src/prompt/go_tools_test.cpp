#include "prompt/go_tools.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/json.h"
#include "prompt/go_messages.h"

namespace billow::prompt {
namespace {

const Json kTools = Json::parse(R"([{
  "function": {"parameters": {"properties": {
      "zone": {"type": ["string", "null"], "description": "<where>", "extra": 1},
      "city": {"type": "string", "enum": ["A", "B"]},
      "list": {"type": "array", "items": {"type": "integer"}},
      "any": {"anyOf": [{"type": "number"}, {"type": "object"}]}},
    "required": ["city"], "type": "object", "additionalProperties": false},
    "name": "weather"},
  "type": "function", "strict": true}])");

const Json kCalls = Json::parse(R"([
  {"id": "call_1", "function": {"name": "weather", "arguments": {"zone": 1, "city": "A & B"}}},
  {"function": {"name": "now", "arguments": {}}}])");

std::string rendered(const std::string& source) {
  GoInput input;
  GoMessage message;
  message.role = "assistant";
  message.tool_calls = &kCalls;
  input.messages.push_back(message);
  input.tools = &kTools;
  return render(GoTemplate(source + "{{ if false }}{{ .Messages }}{{ end }}"), input);
}

TEST(GoTools, ToolsPrintLikeOllamasTypes) {
  EXPECT_EQ(rendered("{{ .Tools }}"),
            R"([{"type":"function","function":{"name":"weather","description":"","parameters":)"
            R"({"type":"object","required":["city"],"properties":{)"
            R"("any":{"anyOf":[{"type":"number"},{"type":"object"}]},)"
            R"("city":{"type":"string","enum":["A","B"]},)"
            R"("list":{"type":"array","items":{"type":"integer"}},)"
            R"("zone":{"type":["string","null"],"description":"\u003cwhere\u003e"}}}}}])");
  EXPECT_EQ(
      rendered("{{ range .Tools }}{{ .Function.Name }} {{ json .Function.Parameters.Required }}"
               " {{ .Type }}{{ end }}"),
      "weather [\"city\"] function");
}

TEST(GoTools, PropertiesAreSortedAndHaveTypes) {
  EXPECT_EQ(rendered("{{ range .Tools }}{{ range $name, $p := .Function.Parameters.Properties }}"
                     "{{ $name }}: {{ $p.Type }} {{ toTypeScriptType $p }}; {{ end }}{{ end }}"),
            "any:  number | Record<string, any>; city: string string; list: array any[]; "
            "zone: [string null] string | null; ");
}

TEST(GoTools, SchemasCanBeBooleans) {
  const Json tools = Json::parse(R"([{"function": {"name": "f", "parameters": {
      "type": ["null", "object"], "items": true, "properties": {
        "a": true, "b": false, "c": {"anyOf": [true, {"type": "number"}]},
        "d": {"type": "array", "items": true}, "e": {"type": "array", "items": false}}}}}])");
  GoInput input;
  input.tools = &tools;
  const auto printed = [&](const char* source) {
    return render(GoTemplate(std::string(source) + "{{ if false }}{{ .Messages }}{{ end }}"),
                  input);
  };
  EXPECT_EQ(printed("{{ range .Tools }}{{ .Function.Parameters }}{{ end }}"),
            R"({"type":"object","properties":{"a":{},"b":{},"c":{"anyOf":[{},{"type":"number"}]},)"
            R"("d":{"type":"array"},"e":{"type":"array","items":{"not":{}}}}})");
  EXPECT_EQ(printed("{{ range .Tools }}{{ .Function.Parameters.Type }}"
                    "{{ range $name, $p := .Function.Parameters.Properties }}, {{ $name }}: "
                    "{{ toTypeScriptType $p }}{{ $p.Description }}{{ end }}{{ end }}"),
            "object, a: any, b: any, c: any | number, d: any[], e: any[]");
}

TEST(GoTools, ParametersHaveOneType) {
  const auto type = [](const char* types) {
    const Json tools =
        Json::parse(R"([{"function": {"parameters": {"type": )" + std::string(types) + "}}}]");
    GoInput input;
    input.tools = &tools;
    return render(GoTemplate("{{ range .Tools }}{{ .Function.Parameters.Type }}{{ end }}"
                             "{{ if false }}{{ .Messages }}{{ end }}"),
                  input);
  };
  EXPECT_EQ(type(R"("object")"), "object");
  EXPECT_EQ(type("[]"), "");
  EXPECT_EQ(type(R"(["array", "null"])"), "array");
  EXPECT_THROW(type("[1]"), Error);
  EXPECT_THROW(type("1"), Error);
}

TEST(GoTools, CallsPrintTheirArgumentsAsJson) {
  EXPECT_EQ(rendered("{{ range .Messages }}{{ range .ToolCalls }}{{ .ID }} {{ .Function.Index }} "
                     "{{ .Function.Name }} {{ .Function.Arguments }}\n{{ end }}{{ end }}"),
            "call_1 0 weather {\"city\":\"A \\u0026 B\",\"zone\":1}\n 1 now {}\n");
  EXPECT_EQ(rendered("{{ range .Messages }}{{ range .ToolCalls }}"
                     "{{ range $k, $v := .Function.Arguments }}{{ $k }}={{ $v }},{{ end }}{{ end }}"
                     "{{ end }}"),
            "city=A & B,zone=1,");
  EXPECT_EQ(rendered("{{ range .Messages }}{{ json .ToolCalls }}{{ end }}"),
            R"([{"id":"call_1","function":{"index":0,"name":"weather",)"
            R"("arguments":{"city":"A \u0026 B","zone":1}}},)"
            R"({"function":{"index":1,"name":"now","arguments":{}}}])");
}

TEST(GoTools, MissingPartsAreEmpty) {
  EXPECT_EQ(go_tools(Json()).as_list()->n_items, 0U);
  EXPECT_EQ(go_tools(Json::parse("[{}]")).as_list()->n_items, 1U);
}

TEST(GoTools, WrongTypesAreErrors) {
  for (const char* tools :
       {"{}", "[1]", R"([{"function": 1}])", R"([{"function": {"name": 1}}])",
        R"([{"function": {"parameters": []}}])",
        R"([{"function": {"parameters": {"properties": []}}}])",
        R"([{"function": {"parameters": {"properties": {"x": {"type": 1}}}}}])"}) {
    EXPECT_THROW(go_tools(Json::parse(tools)), Error) << tools;
  }
  for (const char* calls : {"{}", "[1]", "[{}]", R"([{"function": {"arguments": "x"}}])"}) {
    EXPECT_THROW(go_tool_calls(Json::parse(calls)), Error) << calls;
  }
}

TEST(GoTools, DeepSchemasAreErrors) {
  Json schema{{"type", "object"}};
  for (int i = 0; i < 300; ++i) schema = Json{{"properties", {{"x", std::move(schema)}}}};
  EXPECT_THROW(go_tools(Json::array({{{"function", {{"parameters", schema}}}}})), Error);
}

}  // namespace
}  // namespace billow::prompt
