// Tests a runner of an embedding model over its socket, as the server uses it. The model is a fake.
#include "runner/served_embedder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <thread>

#include "base/json.h"
#include "base/test_folder.h"
#include "engine/embed/fake_model.h"
#include "http/client.h"
#include "http/server.h"
#include "reference/tiny_model.h"
#include "runner/service.h"

namespace billow::runner {
namespace {

using engine::FakeEmbedModel;
using engine::FakeWorld;

class EmbedderService : public testing::Test {
 protected:
  void SetUp() override { reference::write_tiny_model({.pooling = 1}, folder_ + "/m.gguf"); }
  void TearDown() override {
    world_->open(true);
    server_.reset();
    service_.reset();
  }

  void start(engine::EmbedBatcherOptions batcher = {}, size_t n_models = 1) {
    EmbedOptions embed;
    embed.is_embedding = [](const gguf::File&) { return true; };
    embed.load = [this, n_models](gguf::File file, const engine::EngineOptions&,
                                  const engine::EmbedSettings&) {
      std::vector<std::unique_ptr<engine::EmbedModel>> models;
      for (size_t i = 0; i < n_models; ++i)
        models.push_back(
            std::make_unique<FakeEmbedModel>(world_, 8192, tokenizer::Tokenizer::load(file)));
      return models;
    };
    embed.batcher = std::move(batcher);
    service_ = std::make_unique<Service>(own_model(folder_ + "/m.gguf", {}, {}, embed));
    http::ServerOptions listen;
    listen.socket_path = folder_ + "/s";
    listen.shape_error = Service::error_response;
    server_ = std::make_unique<http::Server>(listen, service_->routes());
    service_->wait_until_loaded();
  }
  http::Response post(const std::string& target, const std::string& body) const {
    return http::Client({.socket_path = folder_ + "/s"})
        .send({.method = http::Method::kPost, .target = target, .body = body});
  }
  Json health() const {
    const http::Response response =
        http::Client({.socket_path = folder_ + "/s"}).send({.target = "/health"});
    EXPECT_EQ(response.status, 200);
    return Json::parse(response.body);
  }
  static std::string body_of(const std::string& head, const std::vector<int32_t>& tokens) {
    std::string body = head + "\n";
    const size_t at = body.size();
    body.resize(at + tokens.size() * sizeof(int32_t));
    if (!tokens.empty())
      std::memcpy(body.data() + at, tokens.data(), tokens.size() * sizeof(int32_t));
    return body;
  }

  TestFolder temporary_;
  const std::string folder_ = temporary_.path();
  std::shared_ptr<FakeWorld> world_ = std::make_shared<FakeWorld>();
  std::unique_ptr<Service> service_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(EmbedderService, SV_2_ReturnsVectorsAndErrorsOfOneRequest) {
  start();
  const http::Response response =
      post("/embed", body_of(R"({"n":[2,0,1],"client":"a"})", {1, 2, 5}));
  ASSERT_EQ(response.status, 200);
  const size_t end = response.body.find('\n') + 1;
  const Json head = Json::parse(response.body.substr(0, end));
  EXPECT_EQ(head["sizes"], Json::parse("[3,0,3]"));
  ASSERT_EQ(head["errors"].size(), 1u);
  EXPECT_EQ(head["errors"][0]["index"], 1);
  EXPECT_EQ(head["errors"][0]["status"], 400);
  ASSERT_EQ(response.body.size() - end, 6 * sizeof(float));
  float sum = 0;
  std::memcpy(&sum, response.body.data() + end, sizeof sum);
  EXPECT_EQ(sum, 3.0f);
}

TEST_F(EmbedderService, ReportsStateAndFigures) {
  start();
  post("/embed", body_of(R"({"n":[2]})", {1, 2}));
  Json state = health();
  EXPECT_EQ(state["status"], "ready");
  EXPECT_EQ(state["embed_pending_tokens"], 0);
  EXPECT_EQ(state["running"], 0);
  EXPECT_EQ(state["max_context"], 8192);
  EXPECT_FALSE(state.contains("degraded"));
  EXPECT_GT(state["prompt_tokens_per_second"].get<double>(), 0.0);
  ASSERT_EQ(state["embed_passes"].size(), 1u);
  EXPECT_EQ(state["embed_passes"][0][0], 1);
  EXPECT_GT(state["embed_passes"][0][1].get<int64_t>(), 1'600'000'000'000);
  EXPECT_EQ(state["embed_passes"][0][2], 1);
  EXPECT_EQ(state["embed_passes"][0][3], 2);
  const std::vector<Figure> figures = parse_figures(state["figures"]);
  const auto created = std::ranges::find_if(figures, [](const Figure& figure) {
    return figure.name == "billow_embed_batches_created_total";
  });
  ASSERT_NE(created, figures.end());
  EXPECT_EQ(created->value, 1.0);
  EXPECT_EQ(post("/budget", R"({"bytes":1000,"version":3})").status, 200);
  for (int i = 0; i < 60'000 && health()["budget_version"] != 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(health()["budget_version"], 3);
}

// Two parallel passes share the cores, so they are no faster than one after the other.
TEST_F(EmbedderService, CC_13_RunsOnePassAtATimeByDefaultAndReportsIt) {
  const auto max = [&] {
    for (const Figure& figure : parse_figures(health()["figures"]))
      if (figure.name == "billow_embed_batches_max") return figure.value;
    return -1.0;
  };
  start();  // with room for four passes of n_batch
  EXPECT_EQ(max(), 1.0);
  world_->open(false);
  std::vector<std::thread> clients;
  const auto add_client = [&] {
    clients.emplace_back(
        [&] { post("/embed", body_of(R"({"n":[2048]})", std::vector<int32_t>(2048, 1))); });
  };
  add_client();
  world_->wait_for_inside(1);
  add_client();
  add_client();
  for (int i = 0; i < 60'000 && health()["embed_pending_tokens"] != 2 * 2048; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(health()["embed_pending_tokens"], 2 * 2048);
  world_->open(true);
  for (std::thread& client : clients) client.join();
  server_.reset();
  start({}, 2);
  EXPECT_EQ(max(), 2.0);
}

TEST_F(EmbedderService, FI_7_IsDegradedAfterThreeFailedPassesAndContinues) {
  start();
  world_->before_pass = [] { throw std::runtime_error("broken"); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(post("/embed", body_of(R"({"n":[1]})", {1})).status, 200);
  EXPECT_EQ(health()["status"], "ready");
  EXPECT_NE(health()["degraded"].get<std::string>().find("broken"), std::string::npos);
  EXPECT_EQ(service_->failure(), "");
}

TEST_F(EmbedderService, SV_4_RefusesWithRetryAfterWhenTheQueueIsFull) {
  start({.max_waiting = 1});
  world_->open(false);
  std::thread running([&] { post("/embed", body_of(R"({"n":[1]})", {1})); });
  world_->wait_for_inside(1);
  std::thread waiting([&] { post("/embed", body_of(R"({"n":[1]})", {1})); });
  while (health()["waiting"] != 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(health()["running"], 1);
  const http::Response busy = post("/embed", body_of(R"({"n":[1]})", {1}));
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.headers.get("Retry-After"), "1");
  world_->open(true);
  running.join();
  waiting.join();
}

TEST_F(EmbedderService, RefusesCompletionsButTokenizes) {
  start();
  const http::Response refused = post("/completion", body_of(R"({"n_prompt":1})", {1}));
  EXPECT_EQ(refused.status, 501);
  EXPECT_NE(refused.body.find("does not generate text"), std::string::npos);
  const Json tokens = Json::parse(post("/tokenize", R"({"content":"hello"})").body);
  EXPECT_FALSE(tokens["tokens"].empty());
  EXPECT_EQ(post("/detokenize", tokens.dump()).status, 200);
  EXPECT_EQ(post("/embed", body_of(R"({"n":[]})", {})).status, 400);
  EXPECT_EQ(post("/embed", "x").status, 400);
}

TEST_F(EmbedderService, InvalidSizesFailTheLoad) {
  EXPECT_THROW(start({.sizes = {.n_batch = 512, .n_ubatch = 2048}}), Error);
}

TEST_F(EmbedderService, TextModelRefusesPairsAndOtherPooling) {
  Service writer(own_model(folder_ + "/m.gguf", {}, {}, {.is_embedding = nullptr}));
  http::ServerOptions listen;
  listen.socket_path = folder_ + "/s";
  listen.shape_error = Service::error_response;
  http::Server server(listen, writer.routes());
  writer.wait_until_loaded();
  EXPECT_EQ(post("/embed", body_of(R"({"n":[2],"pooling":"mean"})", {1, 2})).status, 200);
  const http::Response other = post("/embed", body_of(R"({"n":[2],"pooling":"cls"})", {1, 2}));
  EXPECT_EQ(other.status, 400);
  EXPECT_NE(other.body.find("pools by"), std::string::npos) << other.body;
  EXPECT_EQ(post("/embed", body_of(R"({"n":[2],"first":[1]})", {1, 2})).status, 400);
}

}  // namespace
}  // namespace billow::runner
