#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "api/ollama/sample_server.h"
#include "base/json.h"
#include "convert/sample_model.h"
#include "http/raw_client.h"
#include "store/create.h"
#include "store/model.h"

namespace billow::api::ollama {
namespace {

using http::Method;

constexpr std::string_view kHelloDigest =
    "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

class Blobs : public testing::Test, protected SampleServer {};

TEST_F(Blobs, AreUploadedOnce) {
  const std::string path = "/api/blobs/" + std::string(kHelloDigest);
  EXPECT_EQ(server.send(Method::kHead, path).status, 404);
  EXPECT_EQ(answer_text(server.post(path, "hello")), "201 ");
  EXPECT_EQ(server.send(Method::kHead, path).status, 200);
  EXPECT_EQ(answer_text(server.post(path, "anything")), "200 ");
  EXPECT_EQ(store.read_blob(*store::Digest::parse(kHelloDigest)), "hello");
}

TEST_F(Blobs, AreStreamedToTheStore) {
  std::string bytes(5'000'000, 'x');
  for (size_t i = 0; i < bytes.size(); i += 1000) bytes[i] = static_cast<char>(i / 1000);
  const store::Digest digest = store::digest_of(bytes);
  EXPECT_EQ(answer_text(server.post("/api/blobs/" + digest.file_name(), bytes)), "201 ");
  EXPECT_EQ(store::digest_of_file(store.blob_path(digest)), digest);
}

TEST_F(Blobs, RefusesBlobsWithAnotherDigest) {
  const std::string path = "/api/blobs/" + std::string(kHelloDigest);
  const auto response = server.post(path, "hallo");
  EXPECT_EQ(answer_text(response), "400 {\"error\":\"digest mismatch, expected \\\"" +
                                       std::string(kHelloDigest) + "\\\", got \\\"" +
                                       store::digest_of("hallo").text() + "\\\"\"}");
  EXPECT_EQ(server.send(Method::kHead, path).status, 404);
}

TEST_F(Blobs, RefusesMalformedDigests) {
  const std::string hex(64, 'a');
  for (const std::string& digest :
       {std::string("x"), "sha256:" + hex + "a", "sha256:" + hex.substr(1) + "g", "md5:" + hex,
        std::string("..%2f..%2fetc%2fpasswd"), "sha256:" + hex + "%00",
        std::string("sha256-%ff")}) {
    EXPECT_EQ(answer_text(server.post("/api/blobs/" + digest, "hello")),
              R"(400 {"error":"invalid digest format"})")
        << digest;
    EXPECT_EQ(server.send(Method::kHead, "/api/blobs/" + digest).status, 400) << digest;
  }
}

TEST_F(Blobs, InterruptedUploadLeavesNothing) {
  {
    http::RawClient client(server.port());
    client.send("POST /api/blobs/" + std::string(kHelloDigest) +
                " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhel");
    client.close();
  }
  EXPECT_EQ(server.send(Method::kHead, "/api/blobs/" + std::string(kHelloDigest)).status, 404);
  EXPECT_EQ(server.post("/api/blobs/" + std::string(kHelloDigest), "hello").status, 201);
}

class Create : public testing::Test, protected SampleServer {
 protected:
  std::string sample_digest() { return store::add_gguf(store, store::sample_gguf()).text(); }

  std::string refusal(Json request) {
    request["stream"] = false;
    if (!request.contains("keep_files")) request["keep_files"] = true;
    const std::string answer = answer_text(server.post_json("/api/create", request));
    request["stream"] = true;
    const http::Response streamed = server.post_json("/api/create", request);
    if (answer.starts_with("400")) {
      EXPECT_EQ(answer_text(streamed), answer);
    }
    return answer;
  }
};

TEST_F(Create, StreamsProgress) {
  const std::string digest = sample_digest();
  const auto response = server.post_json(
      "/api/create", {{"model", "m"}, {"files", {{"m.gguf", digest}}}, {"system", "S"}});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "application/x-ndjson");
  EXPECT_EQ(response.headers.get("X-Request-Id"), "test");
  std::vector<std::string> statuses;
  for (const Json& line : lines_of(response)) statuses.push_back(line.at("status"));
  const auto stored = store.find(store::named("m"));
  ASSERT_TRUE(stored);
  EXPECT_EQ(statuses,
            (std::vector<std::string>{"parsing GGUF", "using existing layer " + digest,
                                      "creating new layer " + store::digest_of("S").text(),
                                      "creating new layer " + stored->manifest.config.digest.text(),
                                      "writing manifest", "success"}));
}

TEST_F(Create, AnswersOnlyTheEndWithoutAStream) {
  const auto response = server.post_json(
      "/api/create", {{"name", "m"}, {"files", {{"m.gguf", sample_digest()}}}, {"stream", false}});
  EXPECT_EQ(answer_text(response), R"(200 {"status":"success"})");
  EXPECT_EQ(response.content_type, "application/json; charset=utf-8");
}

TEST_F(Create, SafetensorsNeedAProgramThatConvertsThem) {
  convert::SampleModel model;
  convert::make_bert(model);
  Json request = {{"model", "tiny"}, {"quantize", "Q8_0"}, {"keep_files", true}};
  for (const convert::SourceFile& file : model.files()) {
    const std::string bytes = read_test_file(file.path);
    const std::string digest = store::digest_of(bytes).text();
    EXPECT_EQ(server.post("/api/blobs/" + digest, bytes).status, 201);
    request["files"][file.name] = digest;
  }
  request["stream"] = false;
  EXPECT_EQ(answer_text(server.post_json("/api/create", request)),
            R"(400 {"error":"conversion of safetensors is not supported here"})");
}

TEST_F(Create, EveryFieldReachesTheModel) {
  make("base", {{"license", "MIT"}, {"parameters", {{"top_k", 3}, {"seed", 1}}}});
  const Json request = {{"MODEL", "m"},
                        {"from", "base"},
                        {"template", "{{ .Prompt }}"},
                        {"system", "S"},
                        {"license", {"Apache", "BSD"}},
                        {"parameters", {{"top_k", 7}, {"stop", {"a", "b"}}}},
                        {"messages", Json::array({{{"role", "USER"}, {"content", "Hi"}}})},
                        {"renderer", "r"},
                        {"parser", "p"},
                        {"requires", "0.14.0"},
                        {"info", {{"parameter_size", "9B"}}},
                        {"unknown", 1}};
  EXPECT_EQ(server.post_json("/api/create", request).status, 200);
  const auto model = store::load_model(store, store::named("m"));
  ASSERT_TRUE(model);
  EXPECT_EQ(model->template_text, "{{ .Prompt }}");
  EXPECT_EQ(model->system, "S");
  EXPECT_EQ(model->licenses, (std::vector<std::string>{"MIT", "Apache", "BSD"}));
  EXPECT_EQ(model->params_json, R"({"top_k":7,"seed":1,"stop":["a","b"]})");
  ASSERT_EQ(model->messages.size(), 1u);
  EXPECT_EQ(model->messages[0].role, "user");
  EXPECT_EQ(model->config.renderer, "r");
  EXPECT_EQ(model->config.parser, "p");
  EXPECT_EQ(model->config.requires_version, "0.14.0");
  EXPECT_EQ(model->config.model_type, "9B");
}

TEST_F(Create, DetectsKnownTemplates) {
  gguf::Writer writer = store::sample_gguf();
  writer.set_string("tokenizer.chat_template",
                    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
                    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if "
                    "add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
  const std::string digest = store::add_gguf(store, writer).text();
  const auto response =
      server.post_json("/api/create", {{"model", "m"}, {"files", {{"m.gguf", digest}}}});
  EXPECT_NE(response.body.find(R"({"status":"using autodetected template chatml"})"),
            std::string::npos);
  const auto model = store::load_model(store, store::named("m"));
  EXPECT_NE(model->params_json.find("<|im_end|>"), std::string::npos);
}

TEST_F(Create, RefusesWrongRequestsInOllamasWords) {
  const std::string digest = sample_digest();
  const std::string junk = store::add_file(store, std::as_bytes(std::span("junk", 4))).text();
  const Json files = {{"m.gguf", digest}};
  const auto error = [](const std::string& text) { return "400 {\"error\":\"" + text + "\"}"; };
  struct Case {
    Json request;
    const char* text;
  };
  const Case kCases[] = {
      {{{"model", "m"}}, "neither 'from' or 'files' was specified"},
      {{{"model", "m"}, {"files", nullptr}}, "neither 'from' or 'files' was specified"},
      {{{"model", "m"}, {"files", Json::object()}}, "no files provided to convert"},
      {{{"model", ""}, {"files", files}}, "invalid model name"},
      {{{"files", files}}, "invalid model name"},
      {{{"model", "../m"}, {"files", files}}, "invalid model name"},
      {{{"model", "m"}, {"from", "a:"}}, "invalid model name"},
      {{{"model", "m"}, {"files", {{"../m.gguf", digest}}}}, "file path must be relative"},
      {{{"model", "m"}, {"files", {{"/etc/passwd", digest}}}}, "file path must be relative"},
      {{{"model", "m"}, {"files", {{"a//b", digest}}}}, "file path must be relative"},
      {{{"model", "m"}, {"files", {{"", digest}}}}, "file path must be relative"},
      {{{"model", "m"}, {"files", {{std::string("a\0b", 3), digest}}}},
       "file path must be relative"},
      {{{"model", "m"}, {"files", {{"m.gguf", "sha256:xyz"}}}}, "invalid digest format"},
      {{{"model", "m"}, {"files", {{"m.gguf", "../../etc/passwd"}}}}, "invalid digest format"},
      {{{"model", "m"}, {"files", {{"m.gguf", junk}}}},
       "m.gguf: supplied file was not in GGUF format"},
      {{{"model", "m"}, {"files", {{"m.bin", junk}}}}, "m.bin: unknown type"},
      {{{"model", "m"}, {"files", files}, {"draft_quantize", "Q4_0"}},
       "--draft-quantize requires a DRAFT model"},
      {{{"model", "m"},
        {"from", "x"},
        {"remote_host", "https://ollama.com"},
        {"draft_files", files}},
       "DRAFT cannot be used with remote models"},
      {{{"model", "m"}, {"files", files}, {"quantization", "Q9"}},
       "unsupported quantization type Q9 - supported types are F32, F16, Q4_K_S, Q4_K_M, Q8_0"},
      {{{"model", "m"}, {"files", files}, {"requires", "new"}},
       "requires must be a valid semver (e.g. 0.14.0)"},
      {{{"model", "m"}, {"files", files}, {"parameters", {{"top_k", "x"}}}},
       "option \\\"top_k\\\" must be of type integer"},
      {{{"model", "m"}, {"files", files}, {"info", {{"context_length", "x"}}}},
       "info: \\\"context_length\\\" must be a whole number that is not negative"},
      {{{"model", 1}, {"files", files}},
       "json: cannot unmarshal number into Go struct field CreateRequest.model of type string"},
      {{{"model", "m"}, {"files", {"m.gguf"}}},
       "json: cannot unmarshal array into Go struct field CreateRequest.files of type "
       "map[string]string"},
      {{{"model", "m"}, {"files", {{"m.gguf", 1}}}},
       "json: cannot unmarshal number into Go struct field CreateRequest.files of type string"},
      {{{"model", "m"}, {"files", files}, {"license", {1}}},
       "json: cannot unmarshal number into Go struct field CreateRequest.license of type string"},
      {{{"model", "m"}, {"files", files}, {"info", "x"}},
       "json: cannot unmarshal string into Go struct field CreateRequest.info of type "
       "map[string]interface {}"},
      {{{"model", "m"}, {"files", files}, {"messages", {{{"role", 1}}}}},
       "json: cannot unmarshal number into Go struct field CreateRequest.messages.role of type "
       "string"},
  };
  for (const Case& wrong : kCases) {
    EXPECT_EQ(refusal(wrong.request), error(wrong.text)) << wrong.request;
  }
  const std::string unclosed =
      refusal({{"model", "m"}, {"files", files}, {"template", "{{ if }}"}});
  EXPECT_TRUE(unclosed.starts_with("400 {\"error\":\"template error: ")) << unclosed;
  EXPECT_EQ(answer_text(server.post("/api/create", "")), error("missing request body"));
  EXPECT_EQ(names(), "");
}

TEST_F(Create, ReportsMissingModelsAndFiles) {
  // The server asks the registry for the model, and the registry is unreachable here.
  EXPECT_TRUE(
      refusal({{"model", "m"}, {"from", "nope"}}).starts_with("500 {\"error\":\"127.0.0.1:9: "));
  const std::string digest = store::digest_of("nothing").text();
  EXPECT_TRUE(refusal({{"model", "m"}, {"files", {{"m.gguf", digest}}}})
                  .starts_with("404 {\"error\":\"m.gg"));
}

TEST_F(Create, ErrorAfterTheFirstStepIsALine) {
  gguf::Writer projector = store::sample_gguf("clip");
  const std::string first = store::add_gguf(store, store::sample_gguf()).text();
  const std::string junk = store::add_file(store, std::as_bytes(std::span("junk", 4))).text();
  const Json request = {
      {"model", "m"}, {"files", {{"a.gguf", first}, {"b.gguf", junk}}}, {"keep_files", true}};
  const auto response = server.post_json("/api/create", request);
  EXPECT_EQ(response.status, 200);
  const auto lines = lines_of(response);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].dump(), R"({"status":"parsing GGUF"})");
  EXPECT_EQ(lines[1].dump(), R"({"error":"b.gguf: supplied file was not in GGUF format"})");
  Json quiet = request;
  quiet["stream"] = false;
  EXPECT_EQ(answer_text(server.post_json("/api/create", quiet)),
            R"(400 {"error":"b.gguf: supplied file was not in GGUF format"})");
}

TEST_F(Create, ADamagedBlobCanBeUploadedAgain) {
  make("m");
  const store::Digest digest = store.find(store::named("m"))->manifest.layers[0].digest;
  const std::string path = store.blob_path(digest);
  const std::string bytes = read_test_file(path);
  const std::string target = "/api/blobs/" + digest.text();
  EXPECT_EQ(server.send(Method::kHead, target).status, 200);
  std::filesystem::resize_file(path, 10);
  EXPECT_EQ(server.send(Method::kHead, target).status, 404);
  EXPECT_EQ(server.post(target, "wrong").status, 400);
  EXPECT_EQ(std::filesystem::file_size(path), 10u);
  EXPECT_EQ(server.post(target, bytes).status, 201);
  EXPECT_TRUE(read_test_file(path) == bytes);
  EXPECT_EQ(server.send(Method::kHead, target).status, 200);
  EXPECT_EQ(server.post(target, bytes).status, 200);
}

class Transfer : public testing::Test, protected SampleServer {};

TEST_F(Transfer, NamesAnUnreachableRegistry) {
  const auto refusal = [&](const std::string& path, const std::string& body) {
    const http::Response response = server.post(path, body);
    const auto lines = lines_of({.body = response.body + (body.ends_with("false}") ? "\n" : "")});
    return std::to_string(response.status) + " " + lines.back().at("error").get<std::string>();
  };
  make("m");
  // The stream has already begun when the transfer fails.
  EXPECT_TRUE(refusal("/api/pull", R"({"model":"n"})").starts_with("200 127.0.0.1:9: "));
  EXPECT_TRUE(
      refusal("/api/pull", R"({"model":"n","stream":false})").starts_with("500 127.0.0.1:9: "));
  // The stored model is kept, with and without a stream.
  for (const char* body : {R"({"model":"m"})", R"({"model":"m","stream":false})"}) {
    const std::string why = refusal("/api/pull", body);
    EXPECT_TRUE(why.ends_with("; the model of the store was kept")) << why;
  }
  EXPECT_TRUE(refusal("/api/push", R"({"model":"m"})").starts_with("200 127.0.0.1:9: "));
  EXPECT_EQ(refusal("/api/push", R"({"model":"nope","stream":false})"),
            "500 model 'nope:latest' not found");
  EXPECT_EQ(refusal("/api/pull", R"({"model":"http://127.0.0.1:9/a/b","stream":false})"),
            "500 insecure protocol http");
  EXPECT_TRUE(store.find(store::named("m")));
}

TEST_F(Transfer, RefusesInvalidNames) {
  EXPECT_EQ(answer_text(server.post("/api/pull", "{}")), R"(400 {"error":"invalid model name"})");
  EXPECT_EQ(answer_text(server.post("/api/push", "{}")), R"(400 {"error":"model is required"})");
  for (const char* path : {"/api/pull", "/api/push"}) {
    EXPECT_EQ(answer_text(server.post(path, R"({"model":"a b"})")),
              R"(400 {"error":"invalid model name"})");
    EXPECT_EQ(answer_text(server.post(path, "")), R"(400 {"error":"missing request body"})");
  }
}

TEST_F(Transfer, APullIntoAStoreWithoutWritePermissionGets403) {
  namespace fs = std::filesystem;
  fs::permissions(folder.path(), fs::perms(0555));
  const uid_t user = ::geteuid();
  ASSERT_TRUE(user != 0 || ::seteuid(65534) == 0);  // root may always write
  for (const char* body : {R"({"model":"n"})", R"({"model":"n","stream":false})"}) {
    const std::string answer = answer_text(server.post("/api/pull", body));
    EXPECT_TRUE(answer.starts_with(R"(403 {"error":"cannot write to the model store)")) << answer;
  }
  ASSERT_TRUE(user != 0 || ::seteuid(0) == 0);
  fs::permissions(folder.path(), fs::perms(0755));
}

}  // namespace
}  // namespace billow::api::ollama
