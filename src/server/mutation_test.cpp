// Almost valid requests: each value in a valid request of each route is replaced by values of other
// types. The server responds without the messages of its JSON library. The status is 500 only if
// Ollama's is 500.
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "http/raw_client.h"
#include "server/sample_server.h"

namespace billow::server {
namespace {

constexpr const char* kTools =
    R"([{"type":"function","items":[1],"function":{"name":"f","description":"d","parameters":{"type":
    "object","$defs":{"x":1},"required":["a"],"properties":{"a":{"type":["string","null"],
    "description":"d","enum":["x",1],"items":{"type":"string"},"anyOf":[{"type":"string"}],
    "properties":{"b":{"type":"number"}},"required":["b"]}}}}}])";
constexpr const char* kOptions =
    R"({"temperature":0.5,"top_k":3,"top_p":0.9,"min_p":0.1,"typical_p":1,"repeat_last_n":3,
    "repeat_penalty":1.1,"presence_penalty":0,"frequency_penalty":0,"seed":1,"stop":["a"],
    "num_predict":5,"num_ctx":64,"use_mmap":true,"num_thread":2})";

struct Valid {
  const char* path;
  std::string body;
};

std::vector<Valid> valid_requests() {
  const std::string calls =
      R"([{"id":"c","function":{"index":0,"name":"f","arguments":{"a":"x"}}}])";
  const std::string openai_calls =
      R"([{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}])";
  const std::string messages = R"("messages":[{"role":"system","content":"s"},{"role":"user",
      "content":"hi","images":[]},{"role":"assistant","content":"","thinking":"t","tool_calls":)" +
                               calls + R"(},{"role":"tool","content":"r","tool_name":"f",
      "tool_call_id":"c"},{"role":"user","content":"so?"}])";
  const std::string openai_messages = R"("messages":[{"role":"user","content":[{"type":"text",
      "text":"hi"}]},{"role":"assistant","content":null,"reasoning":"r","tool_calls":)" +
                                      openai_calls +
                                      R"(},{"role":"tool","content":"r","tool_call_id":"c",
      "name":"f"}])";
  std::vector<Valid> requests = {
      {"/api/generate",
       R"({"model":"go","prompt":"hi","suffix":"","system":"s","template":"","context":[1],
       "raw":false,"images":[],"stream":false,"format":"","keep_alive":"5m","think":false,
       "truncate":true,"shift":true,"logprobs":true,"top_logprobs":2,"options":)" +
           std::string(kOptions) + "}"},
      {"/api/embed",
       R"({"model":"go","input":["a",""],"truncate":true,"truncation_direction":"left","dimensions":2,
       "normalize":true,"pooling":"mean","partial":true,"keep_alive":60,"options":)" +
           std::string(kOptions) + "}"},
      {"/api/embeddings", R"({"model":"go","prompt":"a","keep_alive":"1m","options":{"seed":1}})"},
      {"/api/show", R"({"model":"go","name":"go","verbose":true,"system":"s","template":"t",
       "options":{}})"},
      {"/api/copy", R"({"source":"go","destination":"copied"})"},
      {"/api/create",
       R"({"model":"made","from":"go","stream":false,"template":"{{ .Prompt }}","system":"s",
       "license":["l"],"parameters":{"seed":1,"stop":["a"]},"messages":[{"role":"user",
       "content":"x"}],"adapters":{},"quantize":"","renderer":"","parser":"","requires":"",
       "info":{"a":1}})"},
      {"/api/pull", R"({"model":"go","name":"go","insecure":false,"stream":false})"},
      {"/api/push", R"({"model":"go","insecure":false,"stream":false})"},
      {"/v1/completions",
       R"({"model":"go","prompt":"hi","suffix":"","stream":false,"stream_options":{"include_usage":
       true},"max_tokens":3,"temperature":1,"top_p":1,"frequency_penalty":0,"presence_penalty":0,
       "seed":1,"stop":["x"],"logprobs":2,"echo":false,"options":{"top_k":3},"keep_alive":"1m",
       "num_ctx":64})"},
      {"/v1/embeddings", R"({"model":"go","input":["a"],"dimensions":2,"encoding_format":"float",
       "partial":true})"},
      {"/embed", R"({"model":"go","inputs":["a",[1,2]],"truncate":true,"normalize":true,
       "dimensions":2,"keep_alive":"1m","partial":true})"},
      {"/rerank",
       R"({"model":"go","query":"q","texts":["a","b"],"raw_scores":true,"return_text":true,
       "truncate":true,"partial":true})"},
      {"/v1/rerank", R"({"model":"go","query":"q","documents":["a",{"text":"b"}],"top_n":1,
       "return_documents":true})"},
      {"/tokenize", R"({"model":"go","inputs":["a"],"add_special_tokens":true})"},
      {"/tokenize", R"({"model":"go","content":"a","add_special":true,"parse_special":true,
       "with_pieces":true})"},
      {"/detokenize", R"({"model":"go","tokens":[1,2]})"},
      {"/decode", R"({"model":"go","ids":[[1,2],[3]],"skip_special_tokens":true})"},
  };
  for (const std::string model : {"go", "jinja"}) {
    requests.push_back({"/api/chat", R"({"model":")" + model +
                                         R"(","stream":false,"think":false,"tools":)" + kTools +
                                         "," + messages + R"(,"options":{"stop":["a"]}})"});
    requests.push_back({"/v1/chat/completions",
                        R"({"model":")" + model + R"(","tools":)" + kTools + "," + openai_messages +
                            R"(,"max_completion_tokens":3,"response_format":{"type":"text"},
         "reasoning_effort":"none","reasoning":{"effort":"none"},"logprobs":true,"top_logprobs":2,
         "options":{"top_k":3},"stop":"x"})"});
  }
  return requests;
}

// As text, because some values are invalid JSON.
std::vector<std::string> other_values() {
  const auto nested = [](const char* open, const std::string& inside, const char* close) {
    std::string text;
    for (int i = 0; i < 150; ++i) text += open;
    text += inside;
    for (int i = 0; i < 150; ++i) text += close;
    return text;
  };
  return {"null",
          "true",
          "0",
          "-1",
          "7",
          "1.5",
          "1e308",
          "-1e308",
          "1e999",
          "123456789012345678901234567890",
          R"("")",
          R"("x")",
          "\"\xff\xfe\"",
          R"("\ud800")",
          R"("\u0000")",
          "[]",
          "[null]",
          "[[\"a\"]]",
          R"([1,"a",null,{}])",
          "{}",
          R"({"a":null})",
          R"({"name":null,"type":null,"function":null,"text":null})",
          R"({"name":7,"type":7,"function":7,"text":7})",
          nested("[", "1", "]"),
          nested(R"({"a":)", "1", "}"),
          nested(R"({"type":"object","properties":{"a":)", "{}", "}}"),
          "undefined"};
}

// Collects the pointers of all values inside `json`.
void collect(const Json& json, const Json::json_pointer& at, std::vector<Json::json_pointer>& all) {
  if (!at.empty()) all.push_back(at);
  if (json.is_object())
    for (const auto& [name, value] : json.items()) collect(value, at / name, all);
  if (json.is_array())
    for (size_t i = 0; i < json.size(); ++i) collect(json[i], at / i, all);
}

std::string with_value_at(Json json, const Json::json_pointer& at, const std::string& text) {
  constexpr std::string_view kMark = "\"placeholder\"";
  json[at] = "placeholder";
  std::string body = json.dump();
  body.replace(body.find(kMark), kMark.size(), text);
  return body;
}

// Returns whether Ollama responds with 500, or the machine is the cause.
bool may_be_500(const std::string& answer) {
  static const std::regex known(
      R"(option \\?"|invalid format|template|Jinja|quantiz|Failed to connect|insecure protocol|not found)");
  return std::regex_search(answer, known);
}

bool has_library_message(const std::string& answer) {
  static const std::regex words(
      R"(json\.exception|type_error|out_of_range|std::|basic_string|bad_alloc|internal error|_M_)");
  return std::regex_search(answer, words);
}

class Mutations : public testing::Test, protected ServerFixture {
 protected:
  Mutations() {
    models_.add({.name = "go",
                 .go = "{{ range .Tools }}{{ . }}{{ .Function.Name }}{{ end }}{{ .Suffix }}"
                       "{{ range .Messages }}{{ .Role }}: {{ .Content }}{{ range .ToolCalls }}"
                       "{{ .Function.Name }}{{ .Function.Arguments }}{{ end }}\n{{ end }}"});
    models_.add({.name = "jinja",
                 .jinja = "{% for t in tools %}{{ t | tojson }}{{ t.function.name }}{% endfor %}"
                          "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in "
                          "m.tool_calls %}{{ c.function.name }}{{ c.function.arguments | tojson }}"
                          "{% endfor %}{% endfor %}"});
    Options wanted = options();
    wanted.n_traces = 0;
    start(std::move(wanted));
  }

  void check(const char* path, const std::string& body) {
    const http::Response answer = send(http::Method::kPost, path, body);
    EXPECT_FALSE(has_library_message(answer.body)) << path << " " << body << "\n" << answer.body;
    EXPECT_TRUE(answer.status != 500 || may_be_500(answer.body)) << path << " " << body << "\n"
                                                                 << answer.body;
    if (answer.status != 200) {
      EXPECT_TRUE(Json::parse(answer.body).contains("error")) << path << " " << answer.body;
    }
  }
};

TEST_F(Mutations, OfValuesGetMessagesOfTheServer) {
  const std::vector<std::string> values = other_values();
#ifdef NDEBUG
  constexpr size_t kEach = 1;
#else  // with sanitizers each step takes ten times as long
  constexpr size_t kEach = 4;  // no divisor of the number of values, so that all values occur
#endif
  size_t i = 0;  // of a place and a value
  for (const Valid& valid : valid_requests()) {
    SCOPED_TRACE(valid.path);
    const Json json = Json::parse(valid.body);
    std::vector<Json::json_pointer> places;
    collect(json, Json::json_pointer(), places);
    for (const Json::json_pointer& at : places)
      for (const std::string& value : values)
        if (i++ % kEach == 0) check(valid.path, with_value_at(json, at, value));
    for (const std::string& value : values) check(valid.path, value);
  }
}

// Requests with a known response of Ollama.
TEST_F(Mutations, GetTheSameStatusAsFromOllama) {
  struct Known {
    const char* path;
    const char* body;
    int status;
  };
  for (const Known& known :
       {Known{"/api/chat", R"({"model":"go","messages":7})", 400},
        Known{"/api/chat", R"({"model":"go","messages":[{"role":1}]})", 400},
        Known{"/api/chat", R"({"model":"go","messages":[],"tools":[{"function":{"name":7}}]})",
              400},
        Known{
            "/api/chat",
            R"({"model":"go","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function",
              "function":{"name":null,"description":null,"parameters":null}}]})",
            200},
        Known{"/api/chat",
              R"({"model":"go","messages":[{"role":"user","content":"x"}],"tools":[null]})", 200},
        Known{
            "/api/chat",
            R"({"model":"go","messages":[{"role":"assistant","content":"x","tool_calls":[null]}]})",
            200},
        Known{"/api/chat",
              R"({"model":"jinja","messages":[{"role":"assistant","content":"x","tool_calls":
              [{"function":null}]}]})",
              200},
        Known{"/api/chat",
              R"({"model":"go","messages":[{"role":"assistant","tool_calls":[{"function":
              {"arguments":"{}"}}]}]})",
              400},
        // OpenAI's API refuses a function without a name, Ollama does not.
        Known{"/v1/chat/completions",
              R"({"model":"jinja","messages":[{"role":"user","content":"x"}],"tools":[{"type":
              "function","function":{"name":null}}]})",
              400},
        Known{"/v1/chat/completions",
              R"({"model":"go","messages":[{"role":"user","content":"x"}],"tools":[{"function":
              {"name":["f"]}}]})",
              400},
        Known{"/api/generate", R"({"model":"go","prompt":"x","options":{"stop":[["a"]]}})", 500},
        Known{"/api/generate", R"({"model":"go","prompt":"x","options":{"seed":"a"}})", 500},
        Known{"/api/generate", R"({"model":"go","prompt":7})", 400},
        Known{"/api/generate", R"({"model":"go","options":[]})", 400}}) {
    std::string body = known.body;
    if (const size_t at = body.find(R"({"model")"); at == 0) body.insert(1, R"("stream":false,)");
    const http::Response answer = send(http::Method::kPost, known.path, body);
    EXPECT_EQ(answer.status, known.status) << known.path << " " << body << "\n" << answer.body;
  }
}

}  // namespace
}  // namespace billow::server
