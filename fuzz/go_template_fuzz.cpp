// Parses any bytes as a Go template and renders a small conversation with tools. The result is a
// rendering within the limits or an Error of one line, without crash or hang. Also infers the
// template's tool tag and capabilities. If the first byte is 1, the other bytes are indices of
// template pieces.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "prompt/capabilities.h"
#include "prompt/go_markers.h"
#include "prompt/go_messages.h"

namespace {

using namespace billow;

constexpr prompt::GoLimits kLimits{.n_steps = 10'000, .n_bytes = 1 << 20};

constexpr std::string_view kTools = R"([{"type": "function", "function": {"name": "f",
  "parameters": {"type": "object", "required": ["x"], "properties": {
    "x": {"type": ["string", "null"], "enum": ["<a>"]}, "y": {"anyOf": [{"type": "array"}]}}}}}])";
constexpr std::string_view kCalls =
    R"([{"id": "1", "function": {"name": "f", "arguments": {"x": [1, 2.5, null, "\u00e4"]}}}])";

constexpr std::array<std::string_view, 88> kPieces{"{{ ",
                                                   " }}",
                                                   "{{- ",
                                                   " -}}",
                                                   "{{ if ",
                                                   "{{ else }}",
                                                   "{{ end }}",
                                                   "{{ else if ",
                                                   "{{ range ",
                                                   "{{ with ",
                                                   "{{ break }}",
                                                   "{{ continue }}",
                                                   "{{/* ",
                                                   " */}}",
                                                   "{{ define \"a\" }}",
                                                   "{{ template \"a\" ",
                                                   "{{ block \"b\" ",
                                                   "{{ else with ",
                                                   "$x := ",
                                                   "$x = ",
                                                   "$i, $e := ",
                                                   "$x",
                                                   "$i",
                                                   "$e",
                                                   "$",
                                                   ".",
                                                   ".Messages",
                                                   ".Tools",
                                                   ".System",
                                                   ".Response",
                                                   ".Prompt",
                                                   ".Suffix",
                                                   ".Role",
                                                   ".Content",
                                                   ".Thinking",
                                                   ".ToolCalls",
                                                   ".Function",
                                                   ".Arguments",
                                                   ".Name",
                                                   ".Parameters",
                                                   ".Properties",
                                                   ".Type",
                                                   ".x",
                                                   "(",
                                                   ")",
                                                   " | ",
                                                   ", ",
                                                   "\n",
                                                   "x",
                                                   "\"a\"",
                                                   "\"%v %d %q %5.2f %x|%-9s|%[1]T\"",
                                                   "`\n`",
                                                   "'a'",
                                                   "1",
                                                   "0",
                                                   "-3",
                                                   "1.5",
                                                   "1e9",
                                                   "0x1F",
                                                   "true",
                                                   "nil",
                                                   "eq ",
                                                   "ne ",
                                                   "lt ",
                                                   "le ",
                                                   "and ",
                                                   "or ",
                                                   "not ",
                                                   "len ",
                                                   "index ",
                                                   "slice ",
                                                   "print ",
                                                   "printf ",
                                                   "println ",
                                                   "html ",
                                                   "js ",
                                                   "urlquery ",
                                                   "call ",
                                                   "json ",
                                                   "currentDate ",
                                                   "toTypeScriptType ",
                                                   "\\",
                                                   "{",
                                                   "\xC3\xA4",
                                                   "<t>",
                                                   "}}",
                                                   "{{",
                                                   " "};

std::string source_of(std::string_view bytes) {
  if (!bytes.starts_with('\x01')) return std::string(bytes);
  std::string source;
  for (const char index : bytes.substr(1)) {
    source += kPieces[static_cast<unsigned char>(index) % kPieces.size()];
  }
  return source;
}

prompt::GoInput conversation(const Json& tools, const Json& calls) {
  prompt::GoInput input;
  input.tools = &tools;
  input.think = true;
  input.now = 0;
  for (const char* role : {"system", "user", "assistant", "tool", "user"}) {
    input.messages.emplace_back();
    input.messages.back().role = role;
    input.messages.back().content = "Hi <b> \xC3\xA4";
  }
  input.messages[2].thinking = "hm";
  input.messages[2].tool_calls = &calls;
  input.messages[3].tool_name = "f";
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Json tools = Json::parse(kTools);
  const Json calls = Json::parse(kCalls);
  try {
    const prompt::GoTemplate source(source_of({reinterpret_cast<const char*>(data), size}),
                                    kLimits);
    BILLOW_CHECK(!prompt::infer_tool_tag(source).empty());
    prompt::capabilities_of(source);
    prompt::GoInput input = conversation(tools, calls);
    BILLOW_CHECK(prompt::render(source, input).size() <= 5 * kLimits.n_bytes);
    input.prompt = "a";
    input.suffix = "b";
    BILLOW_CHECK(prompt::render(source, input).size() <= kLimits.n_bytes);
  } catch (const Error& error) {
    const std::string_view message = error.what();
    BILLOW_CHECK(message.starts_with("template: ") && message.find('\n') == message.npos);
    BILLOW_CHECK(utf8::is_valid(message));
  }
  return 0;
}
