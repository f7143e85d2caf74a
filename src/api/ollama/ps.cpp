#include "api/ollama/ps.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "api/ollama/errors.h"
#include "base/error.h"
#include "base/json.h"
#include "store/show.h"

namespace billow::api::ollama {
namespace {

using SystemClock = std::chrono::system_clock;

// The expiry "never": the max duration of 64 bits in nanoseconds.
constexpr auto kForever = std::chrono::floor<std::chrono::seconds>(
    std::chrono::nanoseconds(std::numeric_limits<int64_t>::max()));

std::string expiry_text(const std::optional<SystemClock::time_point>& expires_at) {
  if (expires_at) {
    return store::local_time_text(std::chrono::floor<std::chrono::nanoseconds>(*expires_at));
  }
  const auto now = std::chrono::floor<std::chrono::seconds>(SystemClock::now());
  return store::local_time_text(now + kForever, std::chrono::nanoseconds(0));
}

// Returns the description of the model from the time when it was loaded. Returns empty values if
// the label is not valid JSON.
Json shown_when_loaded(const scheduler::ModelSnapshot& model) {
  Json label = Json::parse(model.label, nullptr, false);
  if (label.is_object()) return label;
  return {{"digest", ""}, {"details", store::details_json({})}, {"weights", ""}};
}

Json prefixes_json(const std::vector<scheduler::Prefix>& prefixes) {
  Json out = Json::array();
  for (const scheduler::Prefix& prefix : prefixes)
    out.push_back({{"tokens", prefix.n_tokens}, {"digests", prefix.digests}});
  return out;
}

Json entry_of(const PsSource& source, const scheduler::LoadedModel& loaded, size_t n_prefixes) {
  const scheduler::ModelSnapshot& model = loaded.model;
  const Json shown = shown_when_loaded(model);
  // A runner reports nothing while it loads.
  const uint64_t n_bytes = model.held_bytes ? model.held_bytes : model.granted_bytes;
  Json entry = {{"name", model.name},
                {"model", model.name},
                {"size", n_bytes},
                {"digest", shown["digest"]},
                {"details", shown["details"]},
                {"expires_at", expiry_text(loaded.expires_at)},
                {"size_vram", loaded.health.gpu_bytes},
                {"context_length", source.context_length(model.key)}};
  if (!loaded.health.engine.empty()) entry["engine"] = loaded.health.engine;
  if (n_prefixes > 0)
    entry["prefixes"] =
        prefixes_json(source.prefixes(model.key, shown["weights"].get<std::string>(), n_prefixes));
  return entry;
}

// Returns the query's number of prefixes; 0 if it has none. Throws Error for an invalid number.
size_t prefixes_asked(const Call& call) {
  constexpr size_t kMaxPrefixes = 1000;
  const auto found = call.request().query.find("prefixes");
  if (found == call.request().query.end()) return 0;
  size_t n = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n > kMaxPrefixes)
    throw Error(ErrorCode::kInvalidInput, "prefixes must be a number up to 1000");
  return n;
}

}  // namespace

std::vector<Route> ps_routes(PsSource source) {
  const auto list = [source = std::move(source)](Call& call) {
    std::vector<scheduler::LoadedModel> loaded = source.state().models;
    std::ranges::sort(loaded, std::greater(), [](const scheduler::LoadedModel& model) {
      return model.expires_at.value_or(SystemClock::time_point::max());
    });
    const size_t n_prefixes = prefixes_asked(call);
    Json models = Json::array();
    for (const auto& model : loaded) models.push_back(entry_of(source, model, n_prefixes));
    respond_json(call, {{"models", std::move(models)}});
  };
  return {
      {.methods = {http::Method::kGet}, .pattern = "/api/ps", .handler = list, .is_watched = true}};
}

}  // namespace billow::api::ollama
