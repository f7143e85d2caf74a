// Tests the decoder of chat requests.
#include <gtest/gtest.h>

#include "api/openai/chat_codec.h"
#include "api/openai/refusal.h"
#include "api/request_options.h"
#include "api/tool_fields.h"
#include "base/json.h"

namespace billow::api::openai {
namespace {

// Returns a request with a model, a message and these fields.
std::string with(const std::string& fields) {
  return R"({"model":"m","messages":[{"role":"user","content":"Hi"}])" +
         (fields.empty() ? "" : "," + fields) + "}";
}
std::string with_messages(const std::string& messages) {
  return R"({"model":"m","messages":[)" + messages + "]}";
}

std::string refused(const std::string& body) { return refusal(decode_chat, body); }

GenerationRequest decoded(const std::string& fields) {
  return decode_chat(with(fields)).generations.at(0);
}
std::vector<Message> messages_of(const std::string& messages) {
  return decode_chat(with_messages(messages)).generations.at(0).messages;
}

TEST(ChatRequest, MinimalRequestHasDefaults) {
  const TextRequest request = decode_chat(with(""));
  const GenerationRequest& generation = request.generations.at(0);
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.include_usage);
  EXPECT_EQ(generation.kind, GenerationKind::kChat);
  EXPECT_EQ(generation.model, "m");
  ASSERT_EQ(generation.messages.size(), 1u);
  EXPECT_EQ(generation.messages[0].role, "user");
  EXPECT_EQ(generation.messages[0].text(), "Hi");
  EXPECT_EQ(generation.options.sampling, (scheduler::Sampling{.temperature = 1.0, .top_p = 1.0}));
  EXPECT_TRUE(generation.tools.empty());
  EXPECT_EQ(generation.grammar, std::nullopt);
  EXPECT_EQ(generation.keep_alive, std::nullopt);
  EXPECT_FALSE(generation.whole_calls);
  EXPECT_FALSE(generation.think.enabled.has_value());
  EXPECT_FALSE(generation.logprobs);
  EXPECT_FALSE(generation.render_only);
}

TEST(ChatRequest, FieldsBecomeOptions) {
  // Each row has fields, and the same options in the form of the object "options".
  const std::pair<const char*, const char*> kOptions[] = {
      {R"("max_tokens":7)", R"({"num_predict":7})"},
      {R"("max_completion_tokens":8)", R"({"num_predict":8})"},
      {R"("max_completion_tokens":8,"max_tokens":7)", R"({"num_predict":7})"},
      {R"("n_predict":9)", R"({"num_predict":9})"},
      {R"("n_predict":9,"max_completion_tokens":8)", R"({"num_predict":8})"},
      {R"("n_predict":9,"max_tokens":null)", R"({"num_predict":9})"},
      {R"("temperature":0)", R"({"temperature":0})"},
      {R"("temperature":null,"top_p":0.5)", R"({"top_p":0.5})"},
      {R"("top_p":0)", R"({"top_p":0})"},
      {R"("seed":42,"frequency_penalty":0.5,"presence_penalty":-1)",
       R"({"seed":42,"frequency_penalty":0.5,"presence_penalty":-1})"},
      {R"("options":{"draft_num_predict":5})", R"({"draft_num_predict":5})"},
      {R"("stop":"END")", R"({"stop":["END"]})"},
      {R"("stop":["a",1,null,"b"])", R"({"stop":["a","b"]})"},
      {R"("stop":7)", "{}"},
      {R"("stop":[])", "{}"},
      {R"("stop":"")", "{}"},
      {R"("stop":["",null])", "{}"},
      {R"("stop":null)", "{}"},
      {R"("num_ctx":4096)", R"({"num_ctx":4096})"},
      {R"("options":{"top_k":5,"num_ctx":1,"temperature":0.25})",
       R"({"top_k":5,"num_ctx":1,"temperature":0.25})"},
      {R"("options":{"temperature":0.25,"num_ctx":1,"top_p":null},"temperature":0.5,"num_ctx":2)",
       R"({"temperature":0.5,"num_ctx":2})"},
      {R"("top_k":3,"min_p":0.5,"typical_p":0.25,"repetition_penalty":1.5)",
       R"({"top_k":3,"min_p":0.5,"typical_p":0.25,"repeat_penalty":1.5})"},
      {R"("mirostat":2,"mirostat_tau":4,"mirostat_eta":0.5)",
       R"({"mirostat":2,"mirostat_tau":4,"mirostat_eta":0.5})"},
      {R"("options":{"mirostat":1})", R"({"mirostat":1})"},
      {R"("n":3,"logit_bias":{},"user":"u","tool_choice":"none","store":true)", "{}"},
  };
  for (const auto& [fields, expected] : kOptions) {
    Json all = Json::parse(R"({"temperature":1.0,"top_p":1.0})");
    all.update(Json::parse(expected));
    const Options found = decoded(fields).options;
    const Options wanted = options_of(all);
    EXPECT_EQ(found.sampling, wanted.sampling) << fields;
    EXPECT_EQ(found.stop, wanted.stop) << fields;
    EXPECT_EQ(found.num_predict, wanted.num_predict) << fields;
    EXPECT_EQ(found.num_ctx, wanted.num_ctx) << fields;
  }
}

TEST(ChatRequest, ReadsFields) {
  EXPECT_TRUE(decode_chat(with(R"("stream":true)")).stream);
  EXPECT_TRUE(decode_chat(with(R"("stream_options":{"include_usage":true})")).include_usage);
  EXPECT_FALSE(decode_chat(with(R"("stream_options":{})")).include_usage);
  const TextRequest rendered = decode_chat(with(R"("stream":true,"_debug_render_only":true)"));
  EXPECT_TRUE(rendered.generations.at(0).render_only);
  EXPECT_FALSE(rendered.stream);
  const TextRequest scored = decode_chat(with(R"("logprobs":true,"top_logprobs":20)"));
  EXPECT_TRUE(scored.generations.at(0).logprobs);
  EXPECT_EQ(scored.generations.at(0).top_logprobs, 20);
  EXPECT_EQ(decoded(R"("keep_alive":"5m")").keep_alive, std::chrono::minutes(5));
  EXPECT_EQ(decoded(R"("keep_alive":-1)").keep_alive, scheduler::kForever);
  EXPECT_TRUE(decoded(R"("ignore_eos":true)").ignore_eos);
  EXPECT_EQ(decode_chat(with(R"("n":3)")).n, 3u);
}

TEST(ChatRequest, ReadsAPredictionFromATextOrParts) {
  EXPECT_EQ(decoded(R"("prediction":null)").prediction, "");
  EXPECT_EQ(decoded(R"("prediction":{"type":"content","content":"ab c"})").prediction, "ab c");
  EXPECT_EQ(decoded(R"("prediction":{"type":"content","content":[{"type":"text","text":"ab"},)"
                    R"({"type":"text","text":"c"}]})")
                .prediction,
            "abc");
  for (const char* wrong : {R"({"type":"other","content":"a"})", R"({"type":"content"})",
                            R"({"type":"content","content":7})",
                            R"({"type":"content","content":[{"type":"image_url","text":"a"}]})"}) {
    EXPECT_TRUE(refusal(decode_chat, with(std::string("\"prediction\":") + wrong))
                    .starts_with("field \"prediction\" must be"))
        << wrong;
  }
}

TEST(ChatRequest, ToolsKeepTheirDeclarations) {
  EXPECT_TRUE(decoded(R"("tools":[])").tools.empty());
  const std::string tool =
      R"({"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object"}}})";
  const auto tools = decoded("\"tools\":[" + tool + "]").tools;
  ASSERT_EQ(tools.size(), 1u);
  EXPECT_EQ(tools[0].name, "f");
  EXPECT_TRUE(tools[0].strict);
  EXPECT_EQ(tools[0].declaration.dump(), tool);
  EXPECT_EQ(tools[0].parameters()->dump(), R"({"type":"object"})");
  const TextRequest older = decode_chat(with(R"("functions":[{"name":"f"}])"));
  EXPECT_TRUE(older.legacy_calls);
  EXPECT_FALSE(older.generations.at(0).tool_choice.parallel) << "there is room for one call";
  EXPECT_EQ(older.generations.at(0).tools.at(0).declaration.dump(),
            R"({"type":"function","function":{"name":"f"}})");
}

// A schema is an object or a boolean. Readers of the arguments get it as the client wrote it, and
// templates get only objects.
TEST(ChatRequest, SchemasOfToolsCanBeBooleans) {
  const std::string schema =
      R"({"type":["object","null"],"properties":{"a":true,"b":false,"c":{"anyOf":[true,)"
      R"({"properties":{"items":true,"d":{"items":false}}}]}},"$defs":{"Value":true},)"
      R"("additionalProperties":false})";
  const std::string tool = R"("tools":[{"type":"function","function":{"name":"f","parameters":)";
  const std::vector<Tool> tools = decoded(tool + schema + "}}]").tools;
  ASSERT_EQ(tools.size(), 1u);
  EXPECT_EQ(tools[0].parameters()->dump(), schema);
  EXPECT_EQ(declarations_of(tools)[0]["function"]["parameters"].dump(),
            R"({"type":["object","null"],"properties":{"a":{},"b":{"not":{}},"c":{"anyOf":[{},)"
            R"({"properties":{"items":{},"d":{"items":{"not":{}}}}}]}},"$defs":{"Value":{}},)"
            R"("additionalProperties":false})");
  EXPECT_EQ(decoded(tool + "true}}]").tools.at(0).parameters()->dump(), "{}");
  EXPECT_EQ(decoded(tool + "false}}]").tools.at(0).parameters()->dump(), R"({"not":{}})");
  const std::string ollama = R"({"tools":[{"function":{"name":"f","parameters":)" + schema + "}}]}";
  EXPECT_EQ(tools_of(Fields::parse(ollama, "ChatRequest")).at(0).parameters()->dump(), schema);
}

TEST(ChatRequest, WrongSchemasOfToolsAreRefused) {
  const std::string place = "Go struct field ChatCompletionRequest.tools.function.parameters";
  const std::tuple<const char*, const char*, const char*, const char*> kRows[] = {
      {"5", "number", "", "api.Parameters"},
      {R"({"type":5})", "number", ".type", "[]string"},
      {R"({"type":["object",5]})", "number", ".type", "string"},
      {R"({"required":"a"})", "string", ".required", "[]string"},
      {R"({"Properties":[]})", "array", ".properties", "map[string]api.Propertie"},
      {R"({"properties":{"a":5}})", "number", ".properties", "api.Propertie"},
      {R"({"properties":{"a":{"type":true}}})", "bool", ".properties.type", "[]string"},
      {R"({"properties":{"a":{"description":5}}})", "number", ".properties.description", "string"},
      {R"({"properties":{"a":{"enum":{}}}})", "object", ".properties.enum", "[]interface {}"},
      {R"({"properties":{"a":{"anyOf":{}}}})", "object", ".properties.anyOf", "[]api.AnyOf"},
      {R"({"properties":{"a":{"anyOf":["b"]}}})", "string", ".properties.anyOf", "api.AnyOf"},
      {R"({"properties":{"a":true,"b":{"properties":{"c":[]}}}})", "array",
       ".properties.properties", "api.Propertie"},
  };
  for (const auto& [schema, kind, field, type] : kRows)
    EXPECT_EQ(refused(with(R"("tools":[{"type":"function","function":{"name":"f","parameters":)" +
                           std::string(schema) + "}}]")),
              "json: cannot unmarshal " + std::string(kind) + " into " + place + field +
                  " of type " + type);
}

TEST(ChatRequest, ToolsAreFunctionsWithNames) {
  const std::string place = "field \"tools\" has a ";
  const std::pair<const char*, std::string> kRefusals[] = {
      {R"("tools":[{"type":"custom","custom":{"name":"code"}}])",
       place + "tool of type \"custom\", which is not supported: only functions are"},
      {R"("tools":[{"type":"function","function":{"name":"f"}},{"type":"web_search"}])",
       place + "tool of type \"web_search\", which is not supported: only functions are"},
      {R"("tools":[{"type":"function"}])", place + "function without a name"},
      {R"("tools":[{"type":"function","function":{"description":"d"}}])",
       place + "function without a name"},
      {R"("functions":[{"description":"d"}])", "field \"functions\" has a function without a name"},
  };
  for (const auto& [fields, text] : kRefusals) EXPECT_EQ(refused(with(fields)), text) << fields;
  EXPECT_EQ(decoded(R"("tools":[{"function":{"name":"f"}}])").tools.at(0).name, "f");
  // Ollama's own API accepts them.
  const auto ollama = [](const char* tool) {
    return tools_of(Fields::parse(R"({"tools":[)" + std::string(tool) + "]}", "ChatRequest"));
  };
  EXPECT_EQ(ollama(R"({"type":"custom"})").at(0).name, "");
}

TEST(ChatRequest, ReadsToolChoices) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}],)";
  const auto choice = [&](const char* fields) { return decoded(tools + fields).tool_choice; };
  EXPECT_EQ(decoded("").tool_choice.use, ToolUse::kAuto);
  EXPECT_EQ(choice(R"("tool_choice":"auto")").use, ToolUse::kAuto);
  EXPECT_EQ(choice(R"("tool_choice":"none")").use, ToolUse::kNone);
  EXPECT_EQ(choice(R"("tool_choice":"required")").use, ToolUse::kRequired);
  EXPECT_EQ(choice(R"("tool_choice":{"type":"function","function":{"name":"f"}})").name, "f");
  EXPECT_EQ(choice(R"("tool_choice":{"type":"function","name":"f"})").use, ToolUse::kRequired);
  EXPECT_EQ(choice(R"("function_call":{"name":"f"})").name, "f");
  EXPECT_TRUE(choice(R"("tool_choice":"auto")").parallel);
  EXPECT_FALSE(choice(R"("parallel_tool_calls":false)").parallel);
  const std::pair<std::string, const char*> kRefusals[] = {
      {tools + R"("tool_choice":"any")",
       "field \"tool_choice\" must be \"none\", \"auto\", \"required\" or name a function, not "
       "\"any\""},
      {tools + R"("tool_choice":{})",
       "field \"tool_choice\" must be \"none\", \"auto\", \"required\" or name a function"},
      {tools + R"("tool_choice":{"function":{"name":"g"}})",
       "field \"tool_choice\" names the function \"g\", which is not in \"tools\""},
      {R"("tool_choice":"required")",
       "field \"tool_choice\" asks for a call, but there are no tools"},
  };
  for (const auto& [fields, text] : kRefusals) EXPECT_EQ(refused(with(fields)), text);
}

TEST(ChatRequest, ReadsLogitBiases) {
  using scheduler::LogitBias;
  const std::vector<LogitBias> expected = {{7, 1.5f}, {8, -100.0f}};
  EXPECT_EQ(decoded(R"("logit_bias":{"7":1.5,"8":-100})").options.sampling.logit_bias, expected);
  EXPECT_EQ(decoded(R"("logit_bias":[[7,1.5],[8,-100]])").options.sampling.logit_bias, expected);
  EXPECT_EQ(decoded(R"("logit_bias":[[9,false]])").options.sampling.logit_bias,
            (std::vector<LogitBias>{{9, {}}}));
  for (const char* wrong :
       {"5", R"({"x":1})", R"({"-1":1})", R"({"1":"a"})", "[[1]]", "[1]", R"([["a",1]])",
        "[[1,true]]", R"({"1":1e39})", R"({"99999999999":1})"}) {
    EXPECT_TRUE(refused(with("\"logit_bias\":" + std::string(wrong)))
                    .starts_with("field \"logit_bias\" must be an object of token ids"))
        << wrong;
  }
}

TEST(ChatRequest, ReadsAllGrammarFields) {
  using constraint::GrammarKind;
  const std::tuple<const char*, GrammarKind, const char*> kFields[] = {
      {R"("response_format":{"type":"json_object"})", GrammarKind::kJsonObject, ""},
      {R"("response_format":{"type":" JSON_Object "})", GrammarKind::kJsonObject, ""},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"b":1}}})",
       GrammarKind::kJsonSchema, R"({"b":1})"},
      {R"("response_format":{"type":"json_schema","schema":{"b":1}})", GrammarKind::kJsonSchema,
       R"({"b":1})"},
      {R"("response_format":{"type":"json_object","schema":{"b":1}})", GrammarKind::kJsonSchema,
       R"({"b":1})"},
      {R"("structured_outputs":{"json":{"b":1}})", GrammarKind::kJsonSchema, R"({"b":1})"},
      {R"("structured_outputs":{"json":"{\"b\":1}"})", GrammarKind::kJsonSchema, R"({"b":1})"},
      {R"("structured_outputs":{"json_object":true})", GrammarKind::kJsonObject, ""},
      {R"("structured_outputs":{"regex":"a+"})", GrammarKind::kRegex, "a+"},
      {R"("structured_outputs":{"choice":["a","\"b"]})", GrammarKind::kGbnf,
       R"(root ::= "a" | "\"b")"},
      {R"("guided_json":{"b":1})", GrammarKind::kJsonSchema, R"({"b":1})"},
      {R"("guided_regex":"a+")", GrammarKind::kRegex, "a+"},
      {R"("guided_grammar":"start: \"a\"")", GrammarKind::kLark, R"(start: "a")"},
      {R"("grammar":"root ::= \"a\"")", GrammarKind::kGbnf, R"(root ::= "a")"},
      {R"("json_schema":{"b":1})", GrammarKind::kJsonSchema, R"({"b":1})"},
  };
  for (const auto& [fields, kind, text] : kFields) {
    const auto grammar = decoded(fields).grammar;
    ASSERT_TRUE(grammar.has_value()) << fields;
    EXPECT_EQ(*grammar, (constraint::Grammar{kind, text})) << fields;
  }
  for (const char* none :
       {R"("response_format":{"type":"text"})", R"("response_format":{})",
        R"("response_format":null)", R"("grammar":"")", R"("structured_outputs":{})"})
    EXPECT_EQ(decoded(none).grammar, std::nullopt) << none;
  const std::pair<const char*, const char*> kRefusals[] = {
      {R"("response_format":{"type":"other"})",
       "field \"response_format.type\" must be \"text\", \"json_object\" or \"json_schema\", not "
       "\"other\""},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n"}})",
       "field \"response_format.json_schema.schema\" is missing"},
      {R"("guided_json":5)", "field \"guided_json\" must be a JSON schema"},
      {R"("guided_choice":[])", "field \"guided_choice\" must be a list of strings"},
      {R"("guided_choice":["a",1])", "field \"guided_choice\" must be a list of strings"},
      {R"("guided_regex":"a","guided_choice":["a"])",
       "fields \"guided_regex\" and \"guided_choice\" ask for different answers; remove one of "
       "them"},
  };
  for (const auto& [fields, text] : kRefusals) EXPECT_EQ(refused(with(fields)), text);
}

// The text of a schema has the limits of the request itself.
TEST(ChatRequest, SchemasInStringsAreBounded) {
  std::string deep = "1";
  for (int i = 0; i < 20'000; ++i) deep = "[" + deep + "]";
  std::string wide = "{";
  for (int i = 0; i < 20'000; ++i) wide += "\"" + std::to_string(i) + "\":1,";
  wide += "\"a\":1}";
  for (const std::string& schema : {"{\"enum\":" + deep + "}", wide}) {
    const std::string text = Json(schema).dump();
    for (const std::string& fields :
         {"\"guided_json\":" + text, "\"json_schema\":" + text,
          "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":" + text +
              "}}"})
      EXPECT_TRUE(refused(with(fields)).ends_with("must be a JSON schema"));
  }
}

TEST(ChatRequest, EffortsBecomeThinkingLevels) {
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
      const Think think = decoded(fields).think;
      EXPECT_EQ(think.enabled, enabled) << fields;
      EXPECT_EQ(think.level, level) << fields;
    }
  }
  EXPECT_FALSE(decoded(R"("reasoning_effort":"")").think.enabled);
  EXPECT_EQ(refused(with(R"("reasoning_effort":"a\"b")")),
            "invalid reasoning value: \"a\\\"b\" (must be \"minimal\", \"low\", \"medium\", "
            "\"high\", \"xhigh\", \"ultra\", \"max\", or \"none\")");
}

TEST(ChatRequest, ReasoningMayBeAFlag) {
  EXPECT_EQ(decoded(R"("reasoning":{"enabled":true})").think.enabled, true);
  EXPECT_EQ(decoded(R"("reasoning":{"enabled":false})").think.enabled, false);
  EXPECT_EQ(decoded(R"("reasoning":{"enabled":null})").think.enabled, std::nullopt);
  EXPECT_EQ(decoded(R"("reasoning":{"enabled":true,"effort":"high"})").think.level, "high");
  EXPECT_EQ(decoded(R"("reasoning":{"enabled":false,"effort":"high"})").think.enabled, false);
  EXPECT_EQ(decoded(R"("reasoning":{"enabled":true},"reasoning_effort":"low")").think.level, "low");
  EXPECT_EQ(decoded(R"("chat_template_kwargs":{"enable_thinking":false})").think.enabled, false);
}

TEST(ChatRequest, RefusesMembersByName) {
  const std::pair<const char*, const char*> kRefusals[] = {
      {R"("reasoning":{"exclude":true})",
       "field \"reasoning.exclude\" is not supported: thinking is always shown"},
      {R"("reasoning":{"max_tokens":100})",
       "field \"reasoning.max_tokens\" is not supported: nothing limits thinking alone; max_tokens "
       "limits the whole answer"},
      {R"("chat_template_kwargs":{"add_vision_id":true})",
       "field \"chat_template_kwargs.add_vision_id\" is not supported: make a model with a "
       "TEMPLATE that sets it"},
  };
  for (const auto& [fields, text] : kRefusals) EXPECT_EQ(refused(with(fields)), text);
  for (const char* harmless :
       {R"("reasoning":{"exclude":false,"max_tokens":null,"effort":"low","summary":"auto"})",
        R"("chat_template_kwargs":{"foo":null,"add_vision_id":false,"enable_thinking":true})",
        R"("chat_template_kwargs":{},"stream_options":{"continuous_usage_stats":true})"})
    EXPECT_EQ(refused(with(harmless)), "") << harmless;
}

TEST(ChatRequest, RefusesWhatLlamaServerWouldHonour) {
  const std::pair<const char*, const char*> kRefusals[] = {
      {R"("dry_multiplier":0.8)", "dry_multiplier"},
      {R"("xtc_probability":0.5)", "xtc_probability"},
      {R"("top_n_sigma":1)", "top_n_sigma"},
      {R"("t_max_predict_ms":5)", "t_max_predict_ms"},
      {R"("lora":[{"id":0,"scale":1}])", "lora"},
      {R"("post_sampling_probs":true)", "post_sampling_probs"},
      {R"("include_reasoning":false)", "include_reasoning"},
      {R"("n_probs":3)", "n_probs"},
  };
  for (const auto& [fields, name] : kRefusals)
    EXPECT_TRUE(
        refused(with(fields)).starts_with("field \"" + std::string(name) + "\" is not supported: "))
        << fields;
  EXPECT_EQ(refused(with(R"("dry_multiplier":0,"dry_base":1.75,"xtc_probability":0.0,"lora":[],)"
                         R"("top_n_sigma":-1,"include_reasoning":true,"timings_per_token":true)")),
            "");
}

TEST(ChatRequest, PartsStayOneMessage) {
  const auto messages = messages_of(R"(
      {"role":"User","content":[{"type":"text","text":"What is it?"},
        {"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}},
        {"type":"text","text":""},
        {"type":"text","text":"Be brief."},
        {"type":"image_url","image_url":"data:;base64,BA=="}]},
      {"role":"user","content":[]})");
  ASSERT_EQ(messages.size(), 2u);
  for (const Message& message : messages) EXPECT_EQ(message.role, "user");
  EXPECT_EQ(messages[0].text(), "What is it?\n\nBe brief.");
  ASSERT_EQ(messages[0].parts.size(), 5u) << "in the original order";
  EXPECT_EQ(std::get<ImagePart>(messages[0].parts[1]).bytes, "\x01\x02\x03");
  EXPECT_EQ(std::get<ImagePart>(messages[0].parts[4]).bytes, "\x04");
  EXPECT_EQ(messages[1].text(), "");
  EXPECT_EQ(messages[1].n_images(), 0u);
  for (const char* type : {"jpeg", "jpg", "png", "webp"}) {
    EXPECT_EQ(refused(with_messages(
                  R"({"role":"user","content":[{"type":"image_url","image_url":"data:image/)" +
                  std::string(type) + R"(;base64,AQID"}]})")),
              "");
  }
}

TEST(ChatRequest, MatchesToolResultsToCallsById) {
  const auto messages = messages_of(R"(
      {"role":"user","content":"Weather?"},
      {"role":"assistant","content":null,"reasoning":"hm","tool_calls":[
        {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":[2.5]}"}},
        {"id":"c2","index":1,"type":"function","function":{"name":"g","arguments":"null"}}]},
      {"role":"tool","tool_call_id":"c2","content":"two"},
      {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"o"},
                                                    {"type":"text","text":"ne"}]},
      {"role":"tool","tool_call_id":"c3","content":"three"},
      {"role":"tool","tool_call_id":"c1","name":"h","content":"four"},
      {"role":"user","name":"ann","content":"Well?"})");
  ASSERT_EQ(messages.size(), 7u);
  EXPECT_EQ(messages[1].role, "assistant");
  EXPECT_EQ(messages[1].text(), "");
  EXPECT_EQ(messages[1].thinking(), "hm");
  EXPECT_EQ(tool_calls_json(messages[1].tool_calls()).dump(),
            R"([{"id":"c1","function":{"index":0,"name":"f","arguments":{"z":1,"a":[2.5]}}},)"
            R"({"id":"c2","function":{"index":1,"name":"g","arguments":{}}}])");
  const std::array<std::array<const char*, 3>, 4> kResults{
      {{"two", "g", "c2"}, {"o\n\nne", "f", "c1"}, {"three", "", "c3"}, {"four", "h", "c1"}}};
  for (size_t i = 0; i < kResults.size(); ++i) {
    EXPECT_EQ(messages[2 + i].text(), kResults[i][0]);
    EXPECT_EQ(messages[2 + i].tool_name, kResults[i][1]);
    EXPECT_EQ(messages[2 + i].tool_call_id, kResults[i][2]);
  }
  EXPECT_EQ(messages[6].tool_name, "");
}

TEST(ChatRequest, CallsAndThinkingStayInTheMessage) {
  const auto messages = messages_of(R"(
      {"role":"assistant","reasoning":"hm","content":[{"type":"text","text":"a"},
        {"type":"text","text":"b"}],"tool_calls":[
        {"id":"c1","function":{"name":"f","arguments":"{}"}}]})");
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].text(), "a\n\nb");
  EXPECT_EQ(messages[0].tool_calls().size(), 1u);
  EXPECT_EQ(messages[0].thinking(), "hm");
}

TEST(ChatRequest, AssistantsMayHaveNoContent) {
  const auto messages = messages_of(R"(
      {"role":"assistant","content":null,"refusal":"I will not."},
      {"role":"Assistant","reasoning":"hm"},
      {"role":"assistant","content":null,"refusal":null},
      {"role":"assistant","content":"a","refusal":"b"})");
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].text(), "I will not.");
  EXPECT_EQ(messages[1].text(), "");
  EXPECT_EQ(messages[1].thinking(), "hm");
  EXPECT_TRUE(messages[2].parts.empty());
  EXPECT_EQ(messages[3].text(), "a");
}

TEST(ChatRequest, BlankArgumentsAreNoArguments) {
  for (const char* arguments : {R"("")", R"(" \n")", "null"}) {
    const std::string call = R"({"name":"f","arguments":)" + std::string(arguments) + "}";
    for (const std::string& fields :
         {R"("tool_calls":[{"function":)" + call + "}]", "\"function_call\":" + call}) {
      const auto messages = messages_of(R"({"role":"assistant",)" + fields + "}");
      ASSERT_EQ(messages.at(0).tool_calls().size(), 1u) << fields;
      EXPECT_EQ(messages[0].tool_calls()[0]->arguments, Json::object()) << fields;
    }
  }
}

// A model wrote them, and its answer comes back.
TEST(ChatRequest, ArgumentsThatAreNoObjectAreKept) {
  for (const std::string& text :
       std::vector<std::string>{"{", "[1]", "{} x", "{\"a\": b}", std::string(5000, '[')}) {
    const Json call = {{"name", "f"}, {"arguments", text}};
    const Json message = {{"role", "assistant"}, {"tool_calls", {{{"function", call}}}}};
    const auto messages = messages_of(message.dump());
    ASSERT_EQ(messages.at(0).tool_calls().size(), 1u) << text;
    EXPECT_EQ(messages[0].tool_calls()[0]->arguments, Json({{"INVALID_JSON", text}}));
  }
}

TEST(ChatRequest, RefusesInOllamasWords) {
  const auto content = [](const char* text) {
    return with_messages(R"({"role":"user","content":)" + std::string(text) + "}");
  };
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
      {with(R"("options":{"num_predict":"2"})"), "option \"num_predict\" must be of type integer"},
      {with(R"("num_ctx":"x")"), "option \"num_ctx\" must be of type integer"},
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
      {content(R"([{"type":"image_url","image_url":"ftp://a/b.png"}])"), "invalid image input"},
      {content(R"([{"type":"image_url","image_url":"data:image/tiff;base64,AQID"}])"),
       "invalid image input"},
      {content(R"([{"type":"image_url","image_url":"data:image/png;base64,A!ID"}])"),
       "invalid image input"},
      {content(R"([{"type":"input_audio","input_audio":{"data":"AAAA"}}])"),
       "input_audio is not supported: no model here accepts audio; send the spoken text"},
  };
  for (const auto& [body, text] : kRefusals) EXPECT_EQ(refused(body), text) << body.substr(0, 200);
}

}  // namespace
}  // namespace billow::api::openai
