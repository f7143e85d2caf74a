#include "api/ollama/ps.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "api/ollama/errors.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "store/model.h"
#include "store/show.h"

namespace billow::api::ollama {
namespace {

using SystemClock = std::chrono::system_clock;

// What stands for "never": as far ahead as a duration of 64 bits in nanoseconds goes.
constexpr auto kForever = std::chrono::floor<std::chrono::seconds>(
    std::chrono::nanoseconds(std::numeric_limits<int64_t>::max()));

std::string expiry_text(const std::optional<SystemClock::time_point>& expires_at) {
  if (expires_at) {
    return store::local_time_text(std::chrono::floor<std::chrono::nanoseconds>(*expires_at));
  }
  const auto now = std::chrono::floor<std::chrono::seconds>(SystemClock::now());
  return store::local_time_text(now + kForever, std::chrono::nanoseconds(0));
}

// Digest and details of a model that may have been deleted since it was loaded.
struct Known {
  std::string digest;
  store::Details details;
};

Known look_up(const store::Store& store, const std::string& shown) {
  try {
    const auto name = store::parse_name(shown);
    const auto stored = name ? store.find(*name) : std::nullopt;
    if (stored) return {stored->digest.hex(), store::details_of(store, *stored)};
  } catch (const Error& error) {
    log::warn(error.what());
  }
  return {};
}

Json entry_of(const store::Store& store, const PsSource& source,
              const scheduler::LoadedModel& loaded) {
  const scheduler::ModelSnapshot& model = loaded.model;
  const Known known = look_up(store, model.name);
  // A runner that still loads has reported nothing.
  const uint64_t n_bytes = model.held_bytes ? model.held_bytes : model.granted_bytes;
  return {{"name", model.name},
          {"model", model.name},
          {"size", n_bytes},
          {"digest", known.digest},
          {"details", store::details_json(known.details)},
          {"expires_at", expiry_text(loaded.expires_at)},
          {"size_vram", 0},
          {"context_length", source.context_length(model.key)}};
}

}  // namespace

std::vector<Route> ps_routes(const store::Store& store, PsSource source) {
  const auto list = [&store, source = std::move(source)](Call& call) {
    std::vector<scheduler::LoadedModel> loaded = source.state().models;
    std::ranges::sort(loaded, std::greater(), [](const scheduler::LoadedModel& model) {
      return model.expires_at.value_or(SystemClock::time_point::max());
    });
    Json models = Json::array();
    for (const auto& model : loaded) models.push_back(entry_of(store, source, model));
    respond_json(call, {{"models", std::move(models)}});
  };
  return {{.methods = {http::Method::kGet}, .pattern = "/api/ps", .handler = list}};
}

}  // namespace billow::api::ollama
