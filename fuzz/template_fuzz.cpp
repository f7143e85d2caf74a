// Parses any bytes as a chat template and its input. The result is a rendering in UTF-8 or an Error
// of one line, without crash or hang. The input follows the first zero byte, as JSON. Without a
// zero byte, the input is a small conversation.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "prompt/chat_template.h"

namespace {

using namespace billow;

constexpr prompt::TemplateLimits kLimits{
    .n_instructions = 10'000, .memory_bytes = 16 << 20, .time_ms = 5'000};

constexpr std::string_view kConversation = R"({
  "messages": [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi <b> \u00e4"},
    {"role": "assistant", "content": null,
     "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"x": [1, 2.5, null]}}}]},
    {"role": "tool", "content": [{"type": "text", "text": "x"}]}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {}}}}],
  "add_generation_prompt": true, "bos_token": "<s>", "strftime_now": "2026-07-26T12:30:00"})";

constexpr std::array<std::string_view, 96> kPieces{"{{ ",
                                                   " }}",
                                                   "{% set x = ",
                                                   "{% set ns.a = ",
                                                   " %}",
                                                   "{% for i in ",
                                                   "{% endfor %}",
                                                   "{% if ",
                                                   "{% else %}",
                                                   "{% endif %}",
                                                   "{% macro f(x, y=1) %}",
                                                   "{% endmacro %}",
                                                   "{{ f(",
                                                   "{% call f(1) %}",
                                                   "{% endcall %}",
                                                   "{% generation %}",
                                                   "{% endgeneration %}",
                                                   "{% set x %}",
                                                   "{% endset %}",
                                                   "{% set ns = namespace(a=[]) %}",
                                                   "{% break %}",
                                                   "{% continue %}",
                                                   "{% raw %}",
                                                   "{% endraw %}",
                                                   "{% filter upper %}",
                                                   "{% endfilter %}",
                                                   "{% with x = ",
                                                   "{% endwith %}",
                                                   "{# ",
                                                   " #}",
                                                   "{%- ",
                                                   " -%}",
                                                   "x",
                                                   "ns.a",
                                                   "messages",
                                                   "tools",
                                                   "i",
                                                   "loop.index",
                                                   "m.role",
                                                   "none",
                                                   "true",
                                                   "-1",
                                                   "3",
                                                   "2.5",
                                                   "'a'",
                                                   "'b,c'",
                                                   "\"\xC3\xA4\\U0001F642\"",
                                                   "[",
                                                   "]",
                                                   "(",
                                                   ")",
                                                   "{'a': ",
                                                   "}",
                                                   "[1, x]",
                                                   "['a', [2]]",
                                                   ", ",
                                                   " ~ ",
                                                   " + ",
                                                   " * ",
                                                   " - ",
                                                   " // ",
                                                   " % ",
                                                   " == ",
                                                   " < ",
                                                   " in ",
                                                   " and ",
                                                   " or ",
                                                   " not ",
                                                   " if ",
                                                   " else ",
                                                   " is ",
                                                   " is defined",
                                                   " is mapping",
                                                   "[0]",
                                                   "[1:]",
                                                   "[::-1]",
                                                   "[-2:9:2]",
                                                   ".a",
                                                   ".append(",
                                                   ".pop(",
                                                   ".items()",
                                                   ".get('a')",
                                                   ".split(",
                                                   ".replace('a', ",
                                                   ".strip()",
                                                   ".format(",
                                                   " | tojson",
                                                   " | join(', ')",
                                                   " | list",
                                                   " | sort",
                                                   " | map(attribute='role')",
                                                   " | indent(2)",
                                                   " | int",
                                                   " | length",
                                                   "range(9)",
                                                   "\n"};

std::string from_pieces(std::string_view indices) {
  std::string source;
  for (const char index : indices) {
    source += kPieces[static_cast<unsigned char>(index) % kPieces.size()];
  }
  return source;
}

std::string source_of(std::string_view bytes) {
  return bytes.starts_with('\x01') ? from_pieces(bytes.substr(1)) : std::string(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = bytes.find('\0');
  const bool has_input = end != std::string_view::npos;
  const Json input = Json::parse(has_input ? bytes.substr(end + 1) : kConversation, nullptr, false);
  if (input.is_discarded()) return -1;
  try {
    const prompt::ChatTemplate chat(source_of(bytes.substr(0, end)), kLimits);
    BILLOW_CHECK(utf8::is_valid(chat.render(input)));
  } catch (const Error& error) {
    const std::string_view message = error.what();
    BILLOW_CHECK(message.starts_with("chat template") && message.find('\n') == message.npos);
    BILLOW_CHECK(utf8::is_valid(message));
  }
  return 0;
}
