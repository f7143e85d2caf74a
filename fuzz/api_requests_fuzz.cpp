// Parses any bytes as the body of a generating request. The body is decoded, or rejected with one
// line of UTF-8 and a matching status. The first byte selects the kind of request.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/anthropic/messages_codec.h"
#include "api/llama/completion_codec.h"
#include "api/openai/chat_codec.h"
#include "api/openai/completions_codec.h"
#include "api/openai/responses_codec.h"
#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"
#include "http/status.h"

namespace {

using namespace billow;

// Checks what every decoder guarantees for its request.
void check_generation(const api::GenerationRequest& request) {
  BILLOW_CHECK(!request.model.empty() || request.kind == api::GenerationKind::kPrompt);
  BILLOW_CHECK(request.kind == api::GenerationKind::kPrompt || !request.messages.empty());
  for (const api::Message& message : request.messages) {
    BILLOW_CHECK(utf8::is_valid(message.text()) && utf8::is_valid(message.thinking()));
    for (const api::ToolCall* call : message.tool_calls())
      BILLOW_CHECK(call->arguments.is_object());
  }
  for (const api::Tool& tool : request.tools)
    BILLOW_CHECK(tool.declaration.at("function").at("name").is_string());
  if (!request.tool_choice.name.empty()) BILLOW_CHECK(!request.tools.empty());
}

void decode_chat(std::string_view body) {
  for (const auto& one : api::openai::decode_chat(body).generations) check_generation(one);
}

void decode_completion(std::string_view body) {
  for (const auto& one : api::openai::decode_completion(body).generations) check_generation(one);
}

void decode_response(std::string_view body) {
  api::openai::ResponseStore store;
  const api::openai::ResponseRequest request = api::openai::decode_response(body, store);
  check_generation(request.generation);
  for (const Json& item : request.input) BILLOW_CHECK(store.item(item) != nullptr);
  for (const api::Tool& tool : request.generation.tools)
    BILLOW_CHECK(request.shapes.contains(tool.name));
}

void decode_message(std::string_view body) {
  const api::anthropic::MessagesRequest request = api::anthropic::decode_message(body);
  check_generation(request.generation);
  BILLOW_CHECK(request.generation.options.num_predict > 0);
}

void decode_count(std::string_view body) {
  check_generation(api::anthropic::decode_count(body).generation);
}

void decode_llama(std::string_view body) {
  const api::llama::CompletionRequest request = api::llama::decode_completion(body);
  BILLOW_CHECK(!request.prompts.empty() && request.n > 0);
}

void decode_infill(std::string_view body) {
  BILLOW_CHECK(api::llama::decode_infill(body).gap.has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::array kDecoders{decode_chat,  decode_completion, decode_response, decode_message,
                                 decode_count, decode_llama,      decode_infill};
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    kDecoders[data[0] % kDecoders.size()](body);
  } catch (const http::StatusError& error) {
    const std::string_view text = error.what();
    BILLOW_CHECK(error.status() == 400 || error.status() == 413 || error.status() == 500);
    BILLOW_CHECK(!text.empty() && utf8::is_valid(text));
    BILLOW_CHECK(text.find('\n') == std::string_view::npos);
  }
  return 0;
}
