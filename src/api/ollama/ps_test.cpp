#include "api/ollama/ps.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "api/ollama/sample_server.h"
#include "base/json.h"

namespace billow::api::ollama {
namespace {

using std::chrono::system_clock;

scheduler::LoadedModel loaded(const std::string& name, uint64_t held_bytes,
                              std::optional<system_clock::time_point> expires_at,
                              const std::string& label = "") {
  scheduler::LoadedModel loaded;
  loaded.model.name = name;
  loaded.model.key = "key of " + name;
  loaded.model.label = label;
  loaded.model.held_bytes = held_bytes;
  loaded.model.granted_bytes = 77;
  loaded.expires_at = expires_at;
  return loaded;
}

class Ps : public testing::Test, protected SampleServer {
 protected:
  Json list() { return Json::parse(ps.get("/api/ps").body)["models"]; }
  std::string label(const std::string& name) {
    return store::loaded_label(store::load_model(store, store::parse_name(name).value()).value());
  }

  scheduler::SchedulerState state;
  TestServer ps{ps_routes({.state = [this] { return state; },
                           .context_length =
                               [](const std::string& key) {
                                 return key == "key of m:latest" ? size_t{8192} : size_t{0};
                               },
                           .prefixes =
                               [](const std::string& key, const std::string& root, size_t n) {
                                 return std::vector<scheduler::Prefix>{{64 * n, {key, root}}};
                               }}),
                shape_error};
};

TEST_F(Ps, ListIsEmptyIfNothingIsLoaded) {
  EXPECT_EQ(answer_text(ps.get("/api/ps")), R"(200 {"models":[]})");
  EXPECT_EQ(ps.post("/api/ps", "").status, 405);
}

TEST_F(Ps, ListsLoadedModels) {
  make("m");
  const Json tags = Json::parse(server.get("/api/tags").body)["models"];
  const auto expires_at = system_clock::now() + std::chrono::minutes(5);
  state.models = {loaded("m:latest", 1000, expires_at, label("m"))};
  const Json models = list();
  ASSERT_EQ(models.size(), 1u);
  const Json expected = {
      {"name", "m:latest"},
      {"model", "m:latest"},
      {"size", 1000},
      {"digest", tags[0]["digest"]},
      {"details", tags[0]["details"]},
      {"expires_at",
       store::local_time_text(std::chrono::floor<std::chrono::nanoseconds>(expires_at))},
      {"size_vram", 0},
      {"context_length", 8192}};
  EXPECT_EQ(models[0].dump(), expected.dump());
}

TEST_F(Ps, ListsPrefixesOnlyOnRequest) {
  make("m");
  state.models = {loaded("m:latest", 1000, std::nullopt, label("m"))};
  EXPECT_FALSE(list()[0].contains("prefixes"));
  const Json prefixes = Json::parse(ps.get("/api/ps?prefixes=3").body)["models"][0]["prefixes"];
  ASSERT_EQ(prefixes.size(), 1u);
  EXPECT_EQ(prefixes[0]["tokens"], 192);
  EXPECT_EQ(prefixes[0]["digests"][0], "key of m:latest");
  EXPECT_EQ(prefixes[0]["digests"][1].get<std::string>().size(), 64u)
      << "the digest of the weights";
  for (const char* wrong : {"x", "-1", "1001", ""})
    EXPECT_EQ(ps.get(std::string("/api/ps?prefixes=") + wrong).status, 400) << wrong;
}

TEST_F(Ps, SortsByExpiryLatestFirst) {
  const auto now = system_clock::now();
  state.models = {loaded("a:latest", 1, now + std::chrono::minutes(1)),
                  loaded("b:latest", 1, std::nullopt),
                  loaded("c:latest", 1, now + std::chrono::minutes(9))};
  const Json models = list();
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(models[0]["name"], "b:latest");
  EXPECT_EQ(models[1]["name"], "c:latest");
  EXPECT_EQ(models[2]["name"], "a:latest");
}

TEST_F(Ps, ShowsNeverAsAFarExpiry) {
  state.models = {loaded("m:latest", 1, std::nullopt)};
  const auto this_year = static_cast<int>(
      std::chrono::year_month_day(std::chrono::floor<std::chrono::days>(system_clock::now()))
          .year());
  const int year = std::atoi(list()[0]["expires_at"].get<std::string>().substr(0, 4).c_str());
  EXPECT_GE(year, this_year + 291);
  EXPECT_LE(year, this_year + 293);
}

TEST_F(Ps, ListsDeletedOrReplacedModelsAsLoaded) {
  make("m");
  // A model that never expires shows an expiry relative to now, which changes each second.
  state.models = {loaded("m:latest", 1, system_clock::now() + std::chrono::hours(1), label("m"))};
  const std::string before = list().dump();
  EXPECT_EQ(list()[0]["digest"].get<std::string>().size(), 64u);
  make("m", {{"system", "Another."}});
  EXPECT_EQ(list().dump(), before) << "the loaded model still runs";
  ASSERT_EQ(server.send(http::Method::kDelete, "/api/delete", R"({"model":"m"})").status, 200);
  EXPECT_EQ(list().dump(), before);
}

TEST_F(Ps, ListsModelsWithoutALabelWithoutDetails) {
  state.models = {loaded("m:latest", 0, std::nullopt)};
  const Json models = list();
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0]["digest"], "");
  // the granted memory, because the runner has not reported its use yet
  EXPECT_EQ(models[0]["size"], 77);
  EXPECT_TRUE(models[0]["details"]["families"].is_null());
}

}  // namespace
}  // namespace billow::api::ollama
