#include "api/llama/slots.h"

#include <gtest/gtest.h>

#include "api/llama/test_answer.h"
#include "api/openai/test_call.h"
#include "api/sample_served.h"
#include "base/json.h"

namespace billow::api::llama {
namespace {

class LlamaSlots : public testing::Test {
 protected:
  LlamaSlots() {
    models.add({.name = "m"});
    key_ = models.catalog.find("m")->key;
    generator.script = [](Sink& sink) { sink.end({.done_reason = "length", .n_cached = 64}); };
  }

  // Returns "200 BODY", or the status and the text of an error.
  std::string answer(const std::string& id, const std::string& action, const std::string& body) {
    http::Request request = openai::request_with(body);
    if (!action.empty()) request.query = {{"action", action}};
    request.parameters = {{"id", id}};
    return run(http::Method::kPost, "/slots/:id", std::move(request));
  }
  std::string list(http::Parameters query = {}) {
    http::Request request = openai::request_with("");
    request.query = std::move(query);
    return run(http::Method::kGet, "/slots", std::move(request));
  }
  Json answered(const std::string& id, const std::string& action,
                const std::string& body = R"({"filename":"a.bin"})") {
    const std::string text = answer(id, action, body);
    EXPECT_TRUE(text.starts_with("200 ")) << text;
    return Json::parse(text.substr(4));
  }
  const std::string& key() const { return key_; }

  SampleStore models;
  openai::ScriptedGenerator generator;
  scheduler::SchedulerState state{};
  Slots slots{2};
  TestFolder folder;
  SlotFiles slot_files{{.folder = folder.path() + "/slots", .max_bytes = 1 << 20}};
  std::optional<scheduler::TextKv> kv{{.n_tokens = 128, .n_bytes = 5000}};
  std::vector<std::pair<scheduler::TextAction, std::vector<int32_t>>> actions;

 private:
  std::string run(http::Method method, const std::string& pattern, http::Request request) {
    const auto do_with_text = [this](const std::string& of, scheduler::TextAction action,
                                     const scheduler::CachedText& text) {
      EXPECT_EQ(of, key_);
      actions.emplace_back(action, text.tokens);
      return kv;
    };
    return answer_of(slot_routes({.generator = generator,
                                  .catalog = models.catalog,
                                  .store = models.store,
                                  .state = [this] { return state; },
                                  .slots = slots,
                                  .slot_files = slot_files,
                                  .do_with_text = do_with_text,
                                  .version = "1"}),
                     method, pattern, std::move(request));
  }
  std::string key_;
};

TEST_F(LlamaSlots, SavesAndRestoresAText) {
  const std::vector<int32_t> tokens(150, 97);
  slots.set(key(), 1, {.text = {.tokens = tokens}});
  const Json saved = answered("1", "save");
  EXPECT_EQ(saved["id_slot"], 1);
  EXPECT_EQ(saved["filename"], "a.bin");
  EXPECT_EQ(saved["n_saved"], 150);
  EXPECT_EQ(saved["n_saved_kv"], 128);
  EXPECT_GT(saved["n_written"], 5000 + 600);
  EXPECT_GE(saved["timings"]["save_ms"], 0.0);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0].first, scheduler::TextAction::kSave);
  EXPECT_EQ(actions[0].second, tokens);

  const Json restored = answered("0", "restore");
  EXPECT_EQ(restored["id_slot"], 0);
  EXPECT_EQ(restored["filename"], "a.bin");
  EXPECT_EQ(restored["n_restored"], 150);
  EXPECT_GT(restored["n_read"], 600);
  EXPECT_EQ(restored["n_evaluated"], 150 - 64);
  EXPECT_GE(restored["timings"]["restore_ms"], 0.0);
  EXPECT_EQ(generator.request.prompt_tokens, tokens);
  EXPECT_EQ(generator.request.slot, 0);
  EXPECT_EQ(generator.request.options.num_predict, 0);
}

TEST_F(LlamaSlots, SavesAndRestoresAnEmptySlot) {
  EXPECT_EQ(answered("1", "save")["n_saved"], 0);
  slots.set(key(), 0, {.text = {.tokens = {97}}});
  EXPECT_EQ(answered("0", "restore")["n_restored"], 0);
  EXPECT_TRUE(slots.text(key(), 0).text.tokens.empty());
}

TEST_F(LlamaSlots, SavesTheTextOfAModelThatIsNotLoaded) {
  slots.set(key(), 0, {.text = {.tokens = {97}}});
  kv.reset();
  const Json saved = answered("0", "save");
  EXPECT_EQ(saved["n_saved"], 1);
  EXPECT_FALSE(saved.contains("n_saved_kv"));
}

TEST_F(LlamaSlots, ErasesASlot) {
  slots.set(key(), 0, {.text = {.tokens = {97, 98}}});
  EXPECT_EQ(answer("0", "erase", ""), "200 {\"id_slot\":0,\"n_erased\":2}\n");
  EXPECT_EQ(answer("0", "erase", "{}"), "200 {\"id_slot\":0,\"n_erased\":0}\n");
  EXPECT_EQ(actions[0].first, scheduler::TextAction::kForget);
  EXPECT_EQ(actions[0].second, (std::vector<int32_t>{97, 98}));
}

TEST_F(LlamaSlots, RefusesWrongRequests) {
  const std::string body = R"({"filename":"a.bin"})";
  EXPECT_EQ(answer("2", "save", body),
            "400 there is no slot 2: slots are numbered from 0 to 1 (--parallel)");
  EXPECT_EQ(answer("x", "save", body), "400 \"x\" is not the number of a slot");
  EXPECT_EQ(answer("0", "", body), "400 ?action= must be save, restore or erase");
  EXPECT_EQ(answer("0", "load", body), "400 ?action= must be save, restore or erase");
  EXPECT_EQ(answer("0", "save", "{}"), "400 field \"filename\" is required");
  EXPECT_EQ(answer("0", "save", R"({"filename":"../a"})"),
            "400 field \"filename\" must be a plain name, without a path");
  EXPECT_EQ(answer("0", "save", R"({"filename":"a","model":"no"})"), "404 model 'no' not found");
  EXPECT_EQ(answer("0", "restore", R"({"filename":"no"})"), "400 there is no saved slot \"no\"");
  slots.set(key(), 0, {.text = {.tokens = {97}}, .has_images = true});
  EXPECT_EQ(answer("0", "save", body), "501 slot 0 holds images, which are not saved");
  slots.set(key(), 1, {.text = {.tokens = {5000}}});
  answered("1", "save");
  EXPECT_EQ(answer("1", "restore", body),
            "400 the saved slot \"a.bin\" has a token that the model lacks");
}

TEST_F(LlamaSlots, ListsTheSlotsOfLoadedModels) {
  EXPECT_EQ(list(), "200 []\n");
  scheduler::LoadedModel loaded;
  loaded.model.name = "m";
  loaded.model.key = key();
  loaded.health.max_context = 512;
  state.models.push_back(loaded);
  const Slots::Use use = slots.begin(loaded.model.key, {}, {});
  slots.set(loaded.model.key, 0, {.text = {.tokens = {1, 2, 3}}});
  const std::string both =
      "200 [{\"id\":0,\"model\":\"m\",\"n_ctx\":512,\"n_tokens\":3,\"is_processing\":true},"
      "{\"id\":1,\"model\":\"m\",\"n_ctx\":512,\"n_tokens\":0,\"is_processing\":false}]\n";
  EXPECT_EQ(list(), both);
  EXPECT_EQ(list({{"fail_on_no_slot", "1"}, {"model", "m"}}), both);
  const Slots::Use other = slots.begin(loaded.model.key, {}, {});
  EXPECT_EQ(list({{"fail_on_no_slot", "1"}}), "503 no slot is free");
  loaded.model.key = "other";
  state.models = {loaded};
  EXPECT_EQ(list({{"model", "m"}}), "200 []\n");
}

}  // namespace
}  // namespace billow::api::llama
