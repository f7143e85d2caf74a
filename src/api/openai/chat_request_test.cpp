// Requests for a chat, decoded.
#include <gtest/gtest.h>

#include "api/openai/chat_codec.h"
#include "api/openai/refusal.h"
#include "base/json.h"

namespace billow::api::openai {
namespace {

// A request with these fields beside a model and a message.
std::string with(const std::string& fields) {
  return R"({"model":"m","messages":[{"role":"user","content":"Hi"}])" +
         (fields.empty() ? "" : "," + fields) + "}";
}
std::string with_messages(const std::string& messages) {
  return R"({"model":"m","messages":[)" + messages + "]}";
}

std::string refused(const std::string& body) { return refusal(decode_chat, body); }

Json options(const std::string& fields) {
  return Json::parse(decode_chat(with(fields)).generation.options_json);
}

TEST(ChatRequest, ALittleOneHasTheDefaults) {
  const TextRequest request = decode_chat(with(""));
  const GenerationRequest& generation = request.generation;
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.include_usage);
  EXPECT_EQ(generation.kind, GenerationKind::kChat);
  EXPECT_EQ(generation.model, "m");
  ASSERT_EQ(generation.messages.size(), 1u);
  EXPECT_EQ(generation.messages[0].role, "user");
  EXPECT_EQ(generation.messages[0].content, "Hi");
  EXPECT_EQ(Json::parse(generation.options_json), Json::parse(R"({"temperature":1,"top_p":1})"));
  EXPECT_EQ(generation.tools_json, "");
  EXPECT_EQ(generation.format_json, "");
  EXPECT_EQ(generation.keep_alive_json, "");
  EXPECT_FALSE(generation.think.enabled.has_value());
  EXPECT_FALSE(generation.logprobs);
  EXPECT_FALSE(generation.render_only);
}

TEST(ChatRequest, FieldsBecomeOptions) {
  const std::pair<const char*, const char*> kOptions[] = {
      {R"("max_tokens":7)", R"({"num_predict":7})"},
      {R"("max_completion_tokens":8)", R"({"num_predict":8})"},
      {R"("max_completion_tokens":8,"max_tokens":7)", R"({"num_predict":7})"},
      {R"("temperature":0)", R"({"temperature":0})"},
      {R"("temperature":null,"top_p":0.5)", R"({"top_p":0.5})"},
      {R"("top_p":0)", R"({"top_p":0})"},
      {R"("seed":42,"frequency_penalty":0.5,"presence_penalty":-1)",
       R"({"seed":42,"frequency_penalty":0.5,"presence_penalty":-1})"},
      {R"("stop":"END")", R"({"stop":["END"]})"},
      {R"("stop":["a",1,null,"b"])", R"({"stop":["a","b"]})"},
      {R"("stop":7)", "{}"},
      {R"("stop":null)", "{}"},
      {R"("num_ctx":4096)", R"({"num_ctx":4096})"},
      {R"("options":{"top_k":5,"num_ctx":1,"temperature":0.25})",
       R"({"top_k":5,"num_ctx":1,"temperature":0.25})"},
      {R"("options":{"temperature":0.25,"num_ctx":1,"top_p":null},"temperature":0.5,"num_ctx":2)",
       R"({"temperature":0.5,"num_ctx":2})"},
      {R"("n":3,"logit_bias":{},"user":"u","tool_choice":"none","store":true)", "{}"},
  };
  for (const auto& [fields, expected] : kOptions) {
    Json all = Json::parse(R"({"temperature":1.0,"top_p":1.0})");
    all.update(Json::parse(expected));
    const Json found = options(fields);
    EXPECT_EQ(found.size(), all.size()) << fields << " " << found;
    for (const auto& [name, value] : all.items()) EXPECT_EQ(found.at(name), value) << fields;
  }
}

TEST(ChatRequest, FieldsAreRead) {
  EXPECT_TRUE(decode_chat(with(R"("stream":true)")).stream);
  EXPECT_TRUE(decode_chat(with(R"("stream_options":{"include_usage":true})")).include_usage);
  EXPECT_FALSE(decode_chat(with(R"("stream_options":{})")).include_usage);
  const TextRequest rendered = decode_chat(with(R"("stream":true,"_debug_render_only":true)"));
  EXPECT_TRUE(rendered.generation.render_only);
  EXPECT_FALSE(rendered.stream);
  const TextRequest scored = decode_chat(with(R"("logprobs":true,"top_logprobs":20)"));
  EXPECT_TRUE(scored.generation.logprobs);
  EXPECT_EQ(scored.generation.top_logprobs, 20);
  EXPECT_EQ(decode_chat(with(R"("keep_alive":"5m")")).generation.keep_alive_json, "\"5m\"");
  EXPECT_EQ(decode_chat(with(R"("keep_alive":-1)")).generation.keep_alive_json, "-1");
  EXPECT_EQ(decode_chat(with(R"("tools":[])")).generation.tools_json, "");
  const std::string tools = R"([{"type":"function","function":{"name":"f","parameters":{}}}])";
  EXPECT_EQ(decode_chat(with("\"tools\":" + tools)).generation.tools_json, tools);
}

TEST(ChatRequest, FormatGoesByItsType) {
  const std::pair<const char*, const char*> kFormats[] = {
      {R"({"type":"json_object"})", "\"json\""},
      {R"({"type":" JSON_Object "})", "\"json\""},
      {R"({"type":"text"})", ""},
      {R"({"type":"other"})", ""},
      {R"({})", ""},
      {R"(null)", ""},
      {R"({"type":"json_schema","json_schema":{"name":"n","schema":{"b":1,"a":2}}})",
       R"({"b":1,"a":2})"},
      {R"({"type":"json_schema","json_schema":{"name":"n"}})", ""},
      {R"({"type":"json_schema"})", ""},
  };
  for (const auto& [format, expected] : kFormats) {
    const TextRequest request = decode_chat(with(std::string("\"response_format\":") + format));
    EXPECT_EQ(request.generation.format_json, expected) << format;
  }
}

TEST(ChatRequest, EffortsAreLevelsOfThinking) {
  struct Row {
    const char* effort;
    bool enabled;
    const char* level;
  };
  constexpr Row kRows[] = {{"none", false, ""},    {"minimal", true, "low"},
                           {"low", true, "low"},   {"medium", true, "medium"},
                           {"high", true, "high"}, {"max", true, "max"},
                           {"xhigh", true, "max"}, {"ultra", true, "max"}};
  for (const auto& [effort, enabled, level] : kRows) {
    const std::string quoted = "\"" + std::string(effort) + "\"";
    for (const std::string& fields :
         {"\"reasoning\":{\"effort\":" + quoted + "}", "\"reasoning_effort\":" + quoted,
          "\"reasoning\":{\"effort\":" + quoted + "},\"reasoning_effort\":\"low\"",
          "\"reasoning\":{},\"reasoning_effort\":" + quoted}) {
      const Think think = decode_chat(with(fields)).generation.think;
      EXPECT_EQ(think.enabled, enabled) << fields;
      EXPECT_EQ(think.level, level) << fields;
    }
  }
  EXPECT_FALSE(decode_chat(with(R"("reasoning_effort":"")")).generation.think.enabled);
  EXPECT_EQ(refused(with(R"("reasoning_effort":"a\"b")")),
            "invalid reasoning value: \"a\\\"b\" (must be \"minimal\", \"low\", \"medium\", "
            "\"high\", \"xhigh\", \"ultra\", \"max\", or \"none\")");
}

TEST(ChatRequest, PartsAreOneMessage) {
  const auto messages = decode_chat(with_messages(R"(
      {"role":"User","content":[{"type":"text","text":"What is it?"},
        {"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}},
        {"type":"text","text":""},
        {"type":"text","text":"Be brief."},
        {"type":"image_url","image_url":"data:;base64,BA=="},
        {"type":"input_audio","input_audio":{"data":"BQY=","format":"wav"}}]},
      {"role":"user","content":[]})"))
                            .generation.messages;
  ASSERT_EQ(messages.size(), 2u);
  for (const Message& message : messages) EXPECT_EQ(message.role, "user");
  EXPECT_EQ(messages[0].content, "What is it?\n\nBe brief.");
  EXPECT_EQ(messages[0].images, (std::vector<std::string>{"\x01\x02\x03", "\x04", "\x05\x06"}));
  EXPECT_EQ(messages[1].content, "");
  EXPECT_TRUE(messages[1].images.empty());
  for (const char* type : {"jpeg", "jpg", "png", "webp"}) {
    EXPECT_EQ(refused(with_messages(
                  R"({"role":"user","content":[{"type":"image_url","image_url":"data:image/)" +
                  std::string(type) + R"(;base64,AQID"}]})")),
              "");
  }
}

TEST(ChatRequest, ToolCallsAndResultsAreTiedByTheirIds) {
  const auto messages = decode_chat(with_messages(R"(
      {"role":"user","content":"Weather?"},
      {"role":"assistant","content":null,"reasoning":"hm","tool_calls":[
        {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":[2.5]}"}},
        {"id":"c2","index":1,"type":"function","function":{"name":"g","arguments":"null"}}]},
      {"role":"tool","tool_call_id":"c2","content":"two"},
      {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"o"},
                                                    {"type":"text","text":"ne"}]},
      {"role":"tool","tool_call_id":"c3","content":"three"},
      {"role":"tool","tool_call_id":"c1","name":"h","content":"four"},
      {"role":"user","name":"ann","content":"Well?"})"))
                            .generation.messages;
  ASSERT_EQ(messages.size(), 7u);
  EXPECT_EQ(messages[1].role, "assistant");
  EXPECT_EQ(messages[1].content, "");
  EXPECT_EQ(messages[1].thinking, "hm");
  EXPECT_EQ(messages[1].tool_calls_json,
            R"([{"id":"c1","function":{"index":0,"name":"f","arguments":{"z":1,"a":[2.5]}}},)"
            R"({"id":"c2","function":{"index":1,"name":"g","arguments":{}}}])");
  const std::array<std::array<const char*, 3>, 4> kResults{
      {{"two", "g", "c2"}, {"o\n\nne", "f", "c1"}, {"three", "", "c3"}, {"four", "h", "c1"}}};
  for (size_t i = 0; i < kResults.size(); ++i) {
    EXPECT_EQ(messages[2 + i].content, kResults[i][0]);
    EXPECT_EQ(messages[2 + i].tool_name, kResults[i][1]);
    EXPECT_EQ(messages[2 + i].tool_call_id, kResults[i][2]);
  }
  EXPECT_EQ(messages[6].tool_name, "");
}

TEST(ChatRequest, CallsAndThinkingGoWithTheParts) {
  const auto messages = decode_chat(with_messages(R"(
      {"role":"assistant","reasoning":"hm","content":[{"type":"text","text":"a"},
        {"type":"text","text":"b"}],"tool_calls":[
        {"id":"c1","function":{"name":"f","arguments":"{}"}}]})"))
                            .generation.messages;
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].content, "a\n\nb");
  EXPECT_NE(messages[0].tool_calls_json, "");
  EXPECT_EQ(messages[0].thinking, "hm");
}

TEST(ChatRequest, RefusalsSayWhatClientsKnow) {
  const auto content = [](const char* text) {
    return with_messages(R"({"role":"user","content":)" + std::string(text) + "}");
  };
  const auto arguments = [](const char* text) {
    return with_messages(
        R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":)" +
        std::string(text) + "}}]}");
  };
  const std::string deep = "\"" + std::string(5000, '[') + "\"";
  const std::pair<std::string, const char*> kRefusals[] = {
      {"", "EOF"},
      {" \n", "EOF"},
      {"{", "unexpected EOF"},
      {"x", "invalid character 'x' looking for beginning of value"},
      {"{}", "[] is too short - 'messages'"},
      {with_messages(""), "[] is too short - 'messages'"},
      {R"({"messages":[{"role":"user","content":"Hi"}]})", "model is required"},
      {R"({"model":5})",
       "json: cannot unmarshal number into Go struct field ChatCompletionRequest.model of type "
       "string"},
      {with(R"("top_logprobs":21)"), "top_logprobs must be between 0 and 20"},
      {with(R"("top_logprobs":-1)"), "top_logprobs must be between 0 and 20"},
      {with(R"("keep_alive":true)"), "Unsupported type: 'bool'"},
      {with(R"("keep_alive":{})"), "Unsupported type: 'map[string]interface {}'"},
      {content("null"), "invalid message content type: <nil>"},
      {content("5"), "invalid message content type: float64"},
      {content("{}"), "invalid message content type: map[string]interface {}"},
      {with_messages(R"({"role":"user"})"), "invalid message content type: <nil>"},
      {content(R"(["x"])"), "invalid message format"},
      {content(R"([{}])"), "invalid message format"},
      {content(R"([{"type":"file"}])"), "invalid message format"},
      {content(R"([{"type":"text"}])"), "invalid message format"},
      {content(R"([{"type":"text","text":5}])"), "invalid message format"},
      {content(R"([{"type":"image_url"}])"), "invalid message format"},
      {content(R"([{"type":"image_url","image_url":{}}])"), "invalid message format"},
      {content(R"([{"type":"image_url","image_url":{"url":"https://a/b.png"}}])"),
       "image URLs are not currently supported, please use base64 encoded data instead"},
      {content(R"([{"type":"image_url","image_url":"http://a/b.png"}])"),
       "image URLs are not currently supported, please use base64 encoded data instead"},
      {content(R"([{"type":"image_url","image_url":"data:image/gif;base64,AQID"}])"),
       "invalid image input"},
      {content(R"([{"type":"image_url","image_url":"data:image/png;base64,A!ID"}])"),
       "invalid image input"},
      {content(R"([{"type":"input_audio"}])"), "invalid input_audio format"},
      {content(R"([{"type":"input_audio","input_audio":{}}])"),
       "invalid input_audio format: missing data"},
      {content(R"([{"type":"input_audio","input_audio":{"data":"AA!A"}}])"),
       "invalid input_audio base64 data: illegal base64 data at input byte 2"},
      {arguments(R"("{")"), "invalid tool call arguments"},
      {arguments(R"("")"), "invalid tool call arguments"},
      {arguments(R"("[1]")"), "invalid tool call arguments"},
      {arguments(R"("{} x")"), "invalid tool call arguments"},
      {arguments(deep.c_str()), "invalid tool call arguments"},
  };
  for (const auto& [body, text] : kRefusals) EXPECT_EQ(refused(body), text) << body.substr(0, 200);
}

}  // namespace
}  // namespace billow::api::openai
