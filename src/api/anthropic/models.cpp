#include "api/anthropic/models.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "api/fields.h"
#include "base/json.h"
#include "http/status.h"
#include "store/name.h"

namespace billow::api::anthropic {
namespace {

constexpr size_t kDefaultLimit = 20;
constexpr size_t kMaxLimit = 1000;

std::string time_text(store::Time time) {
  const std::time_t seconds =
      std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

Json model_json(const store::StoredModel& model, const std::string& id) {
  Json object;
  object["type"] = "model";
  object["id"] = id;
  object["display_name"] = id;
  object["created_at"] = time_text(model.modified);
  object["lifecycle"] = "active";
  return object;
}

std::string query(const Call& call, std::string_view name) {
  const http::Parameters& query = call.request().query;
  const auto found = query.find(name);
  return found == query.end() ? "" : found->second;
}

size_t limit_of(const Call& call) {
  const std::string text = query(call, "limit");
  if (text.empty()) return kDefaultLimit;
  size_t limit = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (failed != std::errc() || end != text.data() + text.size() || limit < 1 || limit > kMaxLimit)
    throw http::StatusError(400, "limit must be a number from 1 to " + std::to_string(kMaxLimit));
  return limit;
}

// Returns the index of a model in a list. Throws StatusError (400) if the list does not contain it.
size_t place_of(const std::vector<Json>& models, const std::string& id, const char* parameter) {
  const auto found =
      std::ranges::find_if(models, [&](const Json& model) { return model["id"] == id; });
  if (found == models.end())
    throw http::StatusError(
        400, std::string(parameter) + " names the model '" + id + "', which is not in the list");
  return static_cast<size_t>(found - models.begin());
}

}  // namespace

bool is_client(const http::Request& request) {
  return request.headers.find("anthropic-version") != nullptr;
}

void list_models(Call& call, StoredModels& models) {
  call.add_header("request-id", call.trace().id());
  const size_t limit = limit_of(call);
  const std::string after = query(call, "after_id");
  const std::string before = query(call, "before_id");
  std::vector<Json> all;
  for (const store::StoredModel& model : models.list())
    all.push_back(model_json(model, store::display_name(model.name)));
  size_t begin = after.empty() ? 0 : place_of(all, after, "after_id") + 1;
  const size_t end = before.empty() ? all.size() : place_of(all, before, "before_id");
  const size_t n = end - std::min(begin, end);
  const bool has_more = n > limit;
  // If only before_id is given, the page ends right before that model. All other pages start at
  // `begin`.
  if (has_more && after.empty() && !before.empty()) begin = end - limit;
  Json object;
  object["data"] = Json::array();
  for (size_t i = begin; i < begin + std::min(n, limit); ++i) object["data"].push_back(all[i]);
  object["has_more"] = has_more;
  const Json& data = object["data"];
  const Json first = data.empty() ? Json(nullptr) : data.front()["id"];
  const Json last = data.empty() ? Json(nullptr) : data.back()["id"];
  object["first_id"] = first;
  object["last_id"] = last;
  call.respond({.content_type = "application/json", .body = to_text(object) + "\n"});
}

void show_model(Call& call, const store::StoredModel& model, const std::string& id) {
  call.add_header("request-id", call.trace().id());
  call.respond({.content_type = "application/json", .body = to_text(model_json(model, id)) + "\n"});
}

}  // namespace billow::api::anthropic
