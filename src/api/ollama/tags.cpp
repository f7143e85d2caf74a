#include "api/ollama/tags.h"

#include <algorithm>
#include <string>
#include <utility>

#include "api/model_traits.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "store/model.h"
#include "store/show.h"

namespace billow::api::ollama {

std::optional<Tags::Item> Tags::read(store::StoredModel stored) const {
  try {
    auto model = store::load_model(models_->store(), stored.name);
    if (!model) return std::nullopt;
    Json facts = Json::object();
    if (!model->config.remote_model.empty()) facts["remote_model"] = model->config.remote_model;
    if (!model->config.remote_host.empty()) facts["remote_host"] = model->config.remote_host;
    facts["details"] = store::details_json(model->details);
    const auto capabilities = store::capabilities(*model, traits_of(*model, go_templates_));
    if (!capabilities.empty()) facts["capabilities"] = capabilities;
    return Item{.stored = std::move(model->stored),
                .facts = std::make_shared<const Json>(std::move(facts)),
                .is_complete = store::has_all_facts(*model)};
  } catch (const Error& error) {
    log::warn(error.what());
    // It is listed without details, because users need its name to repair or delete it.
    const Json facts = {{"details", store::details_json({})}};
    return Item{.stored = std::move(stored),
                .facts = std::make_shared<const Json>(facts),
                .is_complete = false};
  }
}

Tags::Facts Tags::cached(const store::Digest& digest) {
  const std::lock_guard lock(mutex_);
  const auto at = cached_.find(digest);
  return at == cached_.end() ? nullptr : at->second;
}

std::optional<Tags::Item> Tags::item(const store::Name& name) {
  auto stored = models_->store().read(name);
  if (!stored) return std::nullopt;
  if (Facts facts = cached(stored->digest))
    return Item{.stored = std::move(*stored), .facts = std::move(facts)};
  std::optional<Item> item = read(std::move(*stored));
  if (!item || !item->is_complete) return item;
  const std::lock_guard lock(mutex_);
  cached_[item->stored.digest] = item->facts;
  return item;
}

Json Tags::json() {
  std::vector<Item> items =
      models_->each<Item>("the description", [this](const auto& name) { return item(name); });
  std::ranges::sort(items, store::is_newer, &Item::stored);
  std::map<store::Digest, Facts> seen;
  Json models = Json::array();
  for (const Item& item : items) {
    const store::StoredModel& stored = item.stored;
    const Facts& facts = item.facts;
    if (item.is_complete) seen[stored.digest] = facts;
    const std::string name = store::display_name(stored.name);
    Json entry = {{"name", name}, {"model", name}};
    for (const char* field : {"remote_model", "remote_host"}) {
      if (facts->contains(field)) entry[field] = (*facts)[field];
    }
    entry["modified_at"] = store::local_time_text(stored.modified);
    entry["size"] = stored.manifest.total_bytes();
    entry["digest"] = stored.digest.hex();
    entry["details"] = (*facts)["details"];
    if (facts->contains("capabilities")) entry["capabilities"] = (*facts)["capabilities"];
    models.push_back(std::move(entry));
  }
  const std::lock_guard lock(mutex_);
  cached_ = std::move(seen);
  return {{"models", std::move(models)}};
}

}  // namespace billow::api::ollama
