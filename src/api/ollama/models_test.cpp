#include "api/ollama/models.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "api/ollama/errors.h"
#include "api/ollama/sample_server.h"
#include "base/json.h"
#include "store/json_text.h"

namespace billow::api::ollama {
namespace {

using http::Method;

class Models : public testing::Test, protected SampleServer {};

TEST_F(Models, IdentifiesTheServer) {
  EXPECT_EQ(answer_text(server.get("/")), "200 Ollama is running");
  EXPECT_EQ(server.get("/").content_type, "text/plain; charset=utf-8");
  EXPECT_EQ(answer_text(server.send(Method::kHead, "/")), "200 ");
  const auto version = server.get("/api/version");
  EXPECT_EQ(answer_text(version), R"(200 {"version":"0.33.0"})");
  EXPECT_EQ(version.content_type, "application/json; charset=utf-8");
  EXPECT_EQ(version.headers.get("X-Request-Id"), "test");
  EXPECT_EQ(answer_text(server.send(Method::kHead, "/api/version")), "200 ");
  EXPECT_EQ(answer_text(server.get("/api/status")),
            R"(200 {"cloud":{"disabled":true,"source":"env"}})");
  TestServer other(identity_routes("1.2.3"), shape_error);
  EXPECT_EQ(answer_text(other.get("/api/version")), R"(200 {"version":"1.2.3"})");
}

TEST_F(Models, RefusesCloudRequests) {
  EXPECT_EQ(answer_text(server.post("/api/me", "")), R"(401 {"error":"unauthorized"})");
  constexpr const char* kSignedOut = R"(401 {"error":"you are not currently signed in"})";
  EXPECT_EQ(answer_text(server.post("/api/signout", "")), kSignedOut);
  EXPECT_EQ(answer_text(server.send(Method::kDelete, "/api/user/keys/a%2Fb")), kSignedOut);
  EXPECT_EQ(answer_text(server.post("/api/experimental/web_search", "{}")),
            R"(403 {"error":"ollama cloud is disabled: web search is unavailable"})");
  EXPECT_EQ(answer_text(server.post("/api/experimental/web_fetch", "{}")),
            R"(403 {"error":"ollama cloud is disabled: web fetch is unavailable"})");
  EXPECT_EQ(answer_text(server.get("/api/experimental/model-recommendations")),
            R"(200 {"recommendations":[]})");
}

TEST_F(Models, UnknownPathsAreAnsweredInPlainText) {
  const auto unknown = server.get("/api/nothing");
  EXPECT_EQ(answer_text(unknown), "404 404 page not found");
  EXPECT_EQ(unknown.content_type, "text/plain");
  const auto wrong = server.post("/api/tags", "");
  EXPECT_EQ(answer_text(wrong), "405 405 method not allowed");
  EXPECT_EQ(wrong.headers.get("Allow"), "GET, HEAD");
}

TEST_F(Models, AnEmptyStoreHasAnEmptyList) {
  EXPECT_EQ(answer_text(server.get("/api/tags")), R"(200 {"models":[]})");
  EXPECT_EQ(answer_text(server.send(Method::kHead, "/api/tags")), "200 ");
}

TEST_F(Models, ListsModelsNewestFirst) {
  make("old");
  make("user/new:tag", {{"template", "{{ .Tools }}{{ .Suffix }}{{ .Prompt }}"}});
  touch("registry.ollama.ai/library/old/latest", std::chrono::hours(-1));
  const Json models = Json::parse(server.get("/api/tags").body)["models"];
  ASSERT_EQ(models.size(), 2u);
  const Json& first = models[0];
  EXPECT_EQ(first["name"], "user/new:tag");
  EXPECT_EQ(first["model"], "user/new:tag");
  EXPECT_EQ(models[1]["name"], "old:latest");
  const auto stored = store.find(store::named("user/new:tag"));
  EXPECT_EQ(first["digest"], stored->digest.hex());
  EXPECT_EQ(first["size"], stored->manifest.total_bytes());
  EXPECT_EQ(first["modified_at"], store::local_time_text(stored->modified));
  EXPECT_EQ(first["details"].dump(),
            R"({"parent_model":"","format":"gguf","family":"llama","families":["llama"],)"
            R"("parameter_size":"24","quantization_level":"Q4_K_M","context_length":2048,)"
            R"("embedding_length":6})");
  EXPECT_EQ(first["capabilities"].dump(), R"(["completion","tools","insert"])");
  EXPECT_EQ(models[1]["capabilities"].dump(), R"(["completion"])");
  std::vector<std::string> fields;
  for (const auto& field : first.items()) fields.push_back(field.key());
  EXPECT_EQ(fields, (std::vector<std::string>{"name", "model", "modified_at", "size", "digest",
                                              "details", "capabilities"}));
}

TEST_F(Models, ListFollowsTheStore) {
  make("m");
  EXPECT_EQ(names(), "m:latest ");
  make("m", {{"template", "{{ .Suffix }}"}});
  EXPECT_EQ(Json::parse(server.get("/api/tags").body)["models"][0]["capabilities"].dump(),
            R"(["completion","insert"])");
  EXPECT_TRUE(store.copy(store::named("m"), store::named("n")));
  EXPECT_EQ(names().size(), std::string("m:latest n:latest ").size());
  EXPECT_TRUE(store.remove(store::named("m")));
  EXPECT_EQ(names(), "n:latest ");
}

TEST_F(Models, ListOmitsBrokenModels) {
  make("good");
  make("bad");
  write_test_file(store.folder() + "/manifests/registry.ollama.ai/library/bad/latest", "{");
  EXPECT_EQ(names(), "good:latest ");
  EXPECT_EQ(server.post("/api/show", R"({"model":"bad"})").status, 500);
}

TEST_F(Models, ListHasBrokenConfigsWithoutDetails) {
  store::Manifest manifest;
  manifest.layers = {store.add_layer(store::kModelLayer, "weights")};
  manifest.config = store.add_layer(store::kConfigType, "{");
  store.put(store::named("bad"), manifest);
  const Json models = Json::parse(server.get("/api/tags").body)["models"];
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0]["name"], "bad:latest");
  EXPECT_EQ(models[0]["size"], 8);
  EXPECT_EQ(models[0]["details"]["family"], "");
  EXPECT_EQ(server.post("/api/show", R"({"model":"bad"})").status, 500);
  EXPECT_EQ(server.send(Method::kDelete, "/api/delete", R"({"model":"bad"})").status, 200);
}

// The files may be missing for a moment: a repair changes no manifest.
TEST_F(Models, ListReadsAModelAgainWhoseFilesWereMissing) {
  gguf::Writer writer = store::sample_gguf("bert");
  writer.set_uint("bert.pooling_type", 1);
  make("m", Json::object(), writer);
  const auto capabilities = [&] {
    return Json::parse(server.get("/api/tags").body)["models"][0]["capabilities"].dump();
  };
  const std::string path =
      store.blob_path(store.find(store::named("m"))->manifest.layers[0].digest);
  std::filesystem::rename(path, path + ".away");
  EXPECT_EQ(capabilities(), R"(["completion"])");
  std::filesystem::rename(path + ".away", path);
  EXPECT_EQ(capabilities(), R"(["embedding"])");
}

TEST_F(Models, ListsRemoteModelsButDoesNotShowThem) {
  store::Config config;
  config.remote_host = "https://ollama.com";
  config.remote_model = "big";
  store::Manifest manifest;
  manifest.config = store.add_layer(store::kConfigType, store::to_text(config));
  store.put(store::named("big:1-cloud"), manifest);
  store.put(store::named("stub"), manifest);
  const Json models = Json::parse(server.get("/api/tags").body)["models"];
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0]["remote_model"], "big");
  EXPECT_EQ(models[0]["remote_host"], "https://ollama.com");
  for (const char* name : {"big:1-cloud", "stub", "m:cloud", "none:cloud"}) {
    EXPECT_EQ(answer_text(server.post_json("/api/show", {{"model", name}})),
              R"(403 {"error":"ollama cloud is disabled: remote model details are unavailable"})");
  }
  EXPECT_EQ(server.send(Method::kDelete, "/api/delete", R"({"model":"big:1-cloud"})").status, 200);
}

TEST_F(Models, ShowsAllDetailsOfAModel) {
  make("m", {{"template", "{{ .Prompt }}"},
             {"system", "Be <brief>."},
             {"license", {"MIT", "Apache"}},
             {"parameters", {{"stop", {"a"}}, {"temperature", 0.5}}},
             {"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})},
             {"requires", "0.14.0"}});
  const auto response = server.post("/api/show", R"({"Model":"M"})");
  EXPECT_EQ(response.status, 200);
  EXPECT_NE(response.body.find(R"(Be \u003cbrief\u003e.)"), std::string::npos);
  const Json shown = Json::parse(response.body);
  EXPECT_EQ(shown["license"], "MIT\nApache");
  EXPECT_EQ(shown["system"], "Be <brief>.");
  EXPECT_EQ(shown["template"], "{{ .Prompt }}");
  EXPECT_EQ(shown["parameters"],
            "stop                           \"a\"\n"
            "temperature                    0.5");
  EXPECT_EQ(shown["messages"].dump(), R"([{"role":"user","content":"Hi"}])");
  EXPECT_EQ(shown["details"]["family"], "llama");
  EXPECT_EQ(shown["model_info"]["general.parameter_count"], 24);
  EXPECT_FALSE(shown["model_info"].contains("general.basename"));
  EXPECT_EQ(shown["tensors"].size(), 1u);
  EXPECT_EQ(shown["capabilities"].dump(), R"(["completion"])");
  EXPECT_EQ(shown["requires"], "0.14.0");
  EXPECT_TRUE(shown.contains("modified_at"));
  EXPECT_TRUE(shown["modelfile"].get<std::string>().starts_with(
      "# Modelfile generated by \"ollama show\"\n"));
  EXPECT_EQ(server.post("/api/show", R"({"name":"m:latest"})").body, response.body);
  EXPECT_EQ(server.post("/api/show", R"({"model":"m:local"})").body, response.body);
}

TEST_F(Models, ShowOverridesValuesInTheModelfile) {
  make("m", {{"system", "old"}, {"parameters", {{"top_k", 3}}}});
  const Json shown = Json::parse(
      server.post("/api/show", R"({"model":"m","system":"new","options":{"top_k":7,"seed":1}})")
          .body);
  const auto modelfile = shown["modelfile"].get<std::string>();
  EXPECT_NE(modelfile.find("SYSTEM new"), std::string::npos);
  EXPECT_NE(modelfile.find("PARAMETER top_k 7"), std::string::npos);
  EXPECT_NE(modelfile.find("PARAMETER seed 1"), std::string::npos);
}

TEST_F(Models, ShowsLongArraysOnlyIfVerbose) {
  gguf::Writer writer = store::sample_gguf();
  writer.set_ints("long", std::vector<int32_t>(1025, 1));
  make("m", Json::object(), writer);
  const auto elements = [&](const char* request) {
    return Json::parse(server.post("/api/show", request).body)["model_info"]["long"].size();
  };
  EXPECT_EQ(elements(R"({"model":"m"})"), 0u);
  EXPECT_EQ(elements(R"({"model":"m","verbose":true})"), 1025u);
}

TEST_F(Models, CopilotGetsTheRequestedName) {
  make("m");
  const auto response = server.send(Method::kPost, "/api/show", R"({"model":"m"})",
                                    {{"User-Agent", "GitHubCopilotChat/0.26"}});
  EXPECT_EQ(Json::parse(response.body)["model_info"]["general.basename"], "m");
}

struct Refused {
  Method method;
  const char* path;
  std::string body;
  const char* answer;
};

TEST_F(Models, RefusesRequestsInOllamasWords) {
  make("m");
  const Refused kCases[] = {
      {Method::kPost, "/api/show", "", R"(400 {"error":"missing request body"})"},
      {Method::kPost, "/api/show", "{}", R"(400 {"error":"model is required"})"},
      {Method::kPost, "/api/show", "{\"model\":", R"(400 {"error":"unexpected EOF"})"},
      {Method::kPost, "/api/show", "nothing",
       R"-(400 {"error":"invalid character 'o' in literal null (expecting 'u')"})-"},
      {Method::kPost, "/api/show", R"({"model":"nope"})",
       R"(404 {"error":"model 'nope:latest' not found"})"},
      {Method::kPost, "/api/show", R"({"model":"../../etc/passwd"})",
       R"(400 {"error":"invalid model name"})"},
      {Method::kPost, "/api/show", R"({"model":"m:local:cloud"})",
       R"(400 {"error":"use either :local or :cloud, not both: \"m:local:cloud\""})"},
      {Method::kPost, "/api/show", R"({"model":5})",
       R"(400 {"error":"json: cannot unmarshal number into Go struct field ShowRequest.model of type string"})"},
      {Method::kPost, "/api/show", R"({"model":"m","verbose":"yes"})",
       R"(400 {"error":"json: cannot unmarshal string into Go struct field ShowRequest.verbose of type bool"})"},
      {Method::kPost, "/api/show", R"({"model":"m","options":{"top_k":"x"}})",
       R"(400 {"error":"option \"top_k\" must be of type integer"})"},
      {Method::kPost, "/api/copy", "", R"(400 {"error":"missing request body"})"},
      {Method::kPost, "/api/copy", R"({"source":"nope","destination":"x"})",
       R"(404 {"error":"model \"nope\" not found"})"},
      {Method::kPost, "/api/copy", R"({"source":"a:","destination":"x"})",
       R"(400 {"error":"source \"a:\" is invalid"})"},
      {Method::kPost, "/api/copy", R"({"source":"m"})",
       R"(400 {"error":"destination \"\" is invalid"})"},
      {Method::kPost, "/api/copy", R"({"source":"m","destination":"../x"})",
       R"(400 {"error":"destination \"../x\" is invalid"})"},
      {Method::kDelete, "/api/delete", "", R"(400 {"error":"missing request body"})"},
      {Method::kDelete, "/api/delete", "{}", R"(400 {"error":"model is required"})"},
      {Method::kDelete, "/api/delete", R"({"name":"nope"})",
       R"(404 {"error":"model 'nope' not found"})"},
      {Method::kDelete, "/api/delete", R"({"model":"-m"})",
       R"(400 {"error":"name \"-m\" is invalid"})"},
      {Method::kDelete, "/api/delete", "{\"model\":\"m\\u0000\xff\"}",
       R"(400 {"error":"name \"m\\x00�\" is invalid"})"},
      {Method::kDelete, "/api/delete", R"([{"model":"m"}])",
       R"(400 {"error":"json: cannot unmarshal array into Go value of type api.DeleteRequest"})"},
  };
  for (const Refused& refused : kCases) {
    EXPECT_EQ(answer_text(server.send(refused.method, refused.path, refused.body)), refused.answer)
        << refused.body;
  }
  EXPECT_EQ(names(), "m:latest ");
}

TEST_F(Models, CopiesAndDeletesModels) {
  make("Foo:bar");
  const auto copied = server.post("/api/copy", R"({"source":"foo:BAR","destination":"foo:x"})");
  EXPECT_EQ(answer_text(copied), "200 ");
  EXPECT_EQ(copied.content_type, "");
  EXPECT_TRUE(store.find(store::named("Foo:x")));
  EXPECT_EQ(store.find(store::named("Foo:x"))->digest, store.find(store::named("Foo:bar"))->digest);
  EXPECT_EQ(answer_text(server.send(Method::kDelete, "/api/delete", R"({"name":"FOO:bar"})")),
            "200 ");
  EXPECT_EQ(store::unsound_model(store), "");
  EXPECT_EQ(names(), "Foo:x ");
  EXPECT_EQ(answer_text(server.send(Method::kDelete, "/api/delete", R"({"model":"foo:x"})")),
            "200 ");
  EXPECT_EQ(names(), "");
  const std::filesystem::path blobs = store.folder() + "/blobs";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(blobs), {}), 0);
}

TEST_F(Models, TheEndLocalIsNoTag) {
  make("m");
  EXPECT_EQ(answer_text(server.post("/api/copy", R"({"source":"m:local","destination":"n"})")),
            "200 ");
  for (const char* body :
       {R"({"source":"m","destination":"n:local"})", R"({"source":"m","destination":"n:LOCAL"})"})
    EXPECT_EQ(server.post("/api/copy", body).status, 400) << body;
  EXPECT_EQ(server.post("/api/create", R"({"model":"x:local","from":"m"})").status, 400);
  EXPECT_EQ(server.post("/api/pull", R"({"model":"x:local"})").status, 400);
  EXPECT_EQ(names(), "n:latest m:latest ");
  // Another program may have stored this tag.
  ASSERT_TRUE(store.copy(store::named("m"), store::named("n:local")));
  const auto deleted = [&] {
    return answer_text(server.send(Method::kDelete, "/api/delete", R"({"model":"n:local"})"));
  };
  EXPECT_EQ(deleted(), "200 ");
  EXPECT_EQ(names(), "n:latest m:latest ");
  EXPECT_EQ(deleted(), "200 ");
  EXPECT_EQ(names(), "m:latest ");
  EXPECT_EQ(deleted(), R"(404 {"error":"model 'n:local' not found"})");
}

TEST_F(Models, RefusesMaliciousBodies) {
  EXPECT_EQ(server.post("/api/show", std::string(100'000, '[')).status, 400);
  std::string many = "{\"model\":\"m\"";
  for (int i = 0; i < 20'000; ++i) many += ",\"k" + std::to_string(i) + "\":0";
  EXPECT_EQ(server.post("/api/show", many + "}").status, 400);
  EXPECT_EQ(server.post_json("/api/show", {{"model", std::string(1 << 20, 'a')}}).status, 400);
  EXPECT_EQ(server.post("/api/show", "\xff\xfe{").status, 400);
}

// A server with a read-only store refuses these routes.
TEST_F(Models, MarksRoutesThatWrite) {
  for (const Route& route : store_routes(store, registry)) {
    const bool writes =
        route.pattern == "/api/copy" || route.pattern == "/api/delete" ||
        route.pattern == "/api/create" || route.pattern == "/api/pull" ||
        route.pattern == "/api/push" ||
        (route.pattern == "/api/blobs/:digest" && route.methods == std::vector{Method::kPost});
    EXPECT_EQ(route.writes_store, writes) << route.pattern;
  }
}

}  // namespace
}  // namespace billow::api::ollama
