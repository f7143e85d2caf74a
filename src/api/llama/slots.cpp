#include "api/llama/slots.h"

#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "api/cache_salt.h"
#include "api/fields.h"
#include "api/model_name.h"
#include "api/stored_models.h"
#include "base/json.h"
#include "http/status.h"

namespace billow::api::llama {
namespace {

using http::StatusError;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Identifies what the KV of a text depends on: the names of blobs are digests of their contents.
std::string identity_of(const ServedModel& model) {
  std::string identity = std::filesystem::path(model.stored.weights).filename().string();
  for (const std::string& adapter : model.adapters_of_request())
    identity += " " + std::filesystem::path(adapter).filename().string();
  return identity;
}

// Returns the name of a saved slot's file. Each API key has files of its own.
std::string file_of(const std::string& name, const Call& call) {
  const std::string& user = call.request().user;
  return user.empty() || name.empty() ? name : user + "+" + name;
}

// Evaluates a prompt and keeps nothing but the number of cached tokens.
class Evaluation : public Sink {
 public:
  explicit Evaluation(Call& call) : call_(call) {}
  void sized(const Sizing& sizing) override { report_sizing(call_, sizing); }
  bool delta(const Delta&) override { return !call_.stop().stop_requested(); }
  bool holds_back() const override { return true; }
  bool end(const Ending& ending) override {
    n_cached_ = ending.n_cached;
    return true;
  }
  bool rendered(const std::string&, size_t) override { return false; }
  size_t n_cached() const noexcept { return n_cached_; }

 private:
  Call& call_;
  size_t n_cached_ = 0;
};

class Handlers {
 public:
  explicit Handlers(const Sources& sources) : sources_(sources), models_(sources.store) {}

  void list(Call& call);
  void act(Call& call);

 private:
  static void respond(Call& call, const Json& object) {
    call.respond({.content_type = "application/json", .body = to_text(object) + "\n"});
  }
  std::shared_ptr<const ServedModel> model_of(Call& call, const std::string& name) {
    return llama::model_of(sources_.catalog, call, name);
  }
  // Returns the key of the slots that belong to the caller's API key.
  static std::string key_of(const std::string& runner_key, const Call& call) {
    return slot_key(runner_key, prefix_salt(call.request().user, ""));
  }
  void save(Call& call, const ServedModel& model, size_t id, const std::string& name);
  void restore(Call& call, const ServedModel& model, size_t id, const std::string& name);
  void erase(Call& call, const ServedModel& model, size_t id);

  const Sources sources_;
  StoredModels models_;
};

// Lists the slots of all loaded models, or of the model that the query names. With
// ?fail_on_no_slot=1, an answer without a free slot is an error.
void Handlers::list(Call& call) {
  const http::Parameters& query = call.request().query;
  const auto wanted = query.find("model");
  const std::string key =
      wanted == query.end() ? std::string() : model_of(call, wanted->second)->key;
  Json slots = Json::array();
  size_t n_free = 0;
  for (const scheduler::LoadedModel& loaded : sources_.state().models) {
    if (loaded.model.is_embedding || (!key.empty() && loaded.model.key != key)) continue;
    for (const Slots::State& state : sources_.slots.list(key_of(loaded.model.key, call))) {
      const size_t id = slots.size() % sources_.slots.size();
      if (!state.is_busy) ++n_free;
      slots.push_back({{"id", id},
                       {"model", loaded.model.name},
                       {"n_ctx", loaded.health.max_context},
                       {"n_tokens", state.n_tokens},
                       {"is_processing", state.is_busy}});
    }
  }
  if (query.contains("fail_on_no_slot") && !slots.empty() && n_free == 0)
    throw StatusError(503, "no slot is free");
  respond(call, slots);
}

void Handlers::act(Call& call) {
  const http::Request& request = call.request();
  const std::string& digits = request.parameters.at("id");
  int64_t id = -1;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  if (failed != std::errc() || end != digits.data() + digits.size())
    throw StatusError(400, "\"" + digits + "\" is not the number of a slot");
  sources_.slots.check(id);
  const auto action = request.query.find("action");
  const std::string what = action == request.query.end() ? std::string() : action->second;
  if (what != "save" && what != "restore" && what != "erase")
    throw StatusError(400, "?action= must be save, restore or erase");
  // The body of an erasure is optional.
  std::string body = call.take_body().text;
  if (body.empty() && what == "erase") body = "{}";
  const Fields fields = Fields::parse(body, "SlotRequest");
  const std::string name = fields.text("filename");
  if (what != "erase") sources_.slot_files.check(file_of(name, call));
  const auto model = model_of(call, model_name_of(call, fields.text("model"), models_));
  if (model->facts().is_embedding || model->facts().engine != scheduler::Engine::kOwn)
    throw StatusError(
        501, "model '" + model->name + "' has no slots: it embeds, or llama-server runs it");
  const auto slot = static_cast<size_t>(id);
  if (what == "save") return save(call, *model, slot, name);
  if (what == "restore") return restore(call, *model, slot, name);
  erase(call, *model, slot);
}

void Handlers::save(Call& call, const ServedModel& model, size_t id, const std::string& name) {
  const Clock::time_point begin = Clock::now();
  const SlotText held = sources_.slots.text(key_of(model.key, call), id);
  if (held.has_images)
    throw StatusError(501, "slot " + std::to_string(id) + " holds images, which are not saved");
  uint64_t n_bytes =
      sources_.slot_files.save(file_of(name, call), identity_of(model), held.text.tokens);
  const auto kv = sources_.do_with_text(model.key, scheduler::TextAction::kSave, held.text);
  if (kv) n_bytes += kv->n_bytes;
  Json answer = {{"id_slot", id},
                 {"filename", name},
                 {"n_saved", held.text.tokens.size()},
                 {"n_written", n_bytes}};
  if (kv) answer["n_saved_kv"] = kv->n_tokens;
  answer["timings"] = {{"save_ms", ms_since(begin)}};
  respond(call, answer);
}

// Evaluates the saved tokens. The runner reads from disk what it has there.
void Handlers::restore(Call& call, const ServedModel& model, size_t id, const std::string& name) {
  const Clock::time_point begin = Clock::now();
  const SlotFiles::Saved saved = sources_.slot_files.load(file_of(name, call), identity_of(model));
  for (const int32_t token : saved.tokens)
    if (!model.weights->tokenizer.has(token))
      throw StatusError(400, "the saved slot \"" + name + "\" has a token that the model lacks");
  Evaluation evaluation(call);
  if (saved.tokens.empty()) {
    sources_.slots.set(key_of(model.key, call), id, {});
  } else {
    GenerationRequest request{.kind = GenerationKind::kPrompt, .model = model.name};
    request.prompt_tokens = saved.tokens;
    request.raw = true;
    request.options.num_predict = 0;
    request.slot = static_cast<int64_t>(id);
    sources_.generator.run(request, evaluation, call.stop(), call.trace());
  }
  respond(call, {{"id_slot", id},
                 {"filename", name},
                 {"n_restored", saved.tokens.size()},
                 {"n_read", saved.n_bytes},
                 {"n_evaluated", saved.tokens.size() - evaluation.n_cached()},
                 {"timings", {{"restore_ms", ms_since(begin)}}}});
}

void Handlers::erase(Call& call, const ServedModel& model, size_t id) {
  const SlotText held = sources_.slots.text(key_of(model.key, call), id);
  sources_.slots.set(key_of(model.key, call), id, {});
  (void)sources_.do_with_text(model.key, scheduler::TextAction::kForget, held.text);
  respond(call, {{"id_slot", id}, {"n_erased", held.text.tokens.size()}});
}

}  // namespace

std::vector<Route> slot_routes(const Sources& sources) {
  const auto handlers = std::make_shared<Handlers>(sources);
  Route list;
  list.methods = {http::Method::kGet};
  list.pattern = "/slots";
  list.handler = [handlers](Call& call) { handlers->list(call); };
  Route act;
  act.methods = {http::Method::kPost};
  act.pattern = "/slots/:id";
  act.handler = [handlers](Call& call) { handlers->act(call); };
  act.is_traced = true;
  return {std::move(list), std::move(act)};
}

}  // namespace billow::api::llama
