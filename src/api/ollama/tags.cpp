#include "api/ollama/tags.h"

#include <string>
#include <utility>

#include "api/model_traits.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "store/model.h"
#include "store/show.h"

namespace billow::api::ollama {

Tags::Facts Tags::read(const store::StoredModel& stored) const {
  try {
    const auto model = store::load_model(store_, stored.name);
    if (!model) return nullptr;
    Json facts = Json::object();
    if (!model->config.remote_model.empty()) facts["remote_model"] = model->config.remote_model;
    if (!model->config.remote_host.empty()) facts["remote_host"] = model->config.remote_host;
    facts["details"] = store::details_json(model->details);
    const auto capabilities = store::capabilities(*model, traits_of(*model, go_templates_));
    if (!capabilities.empty()) facts["capabilities"] = capabilities;
    return std::make_shared<const Json>(std::move(facts));
  } catch (const Error& error) {
    log::warn(error.what());
    return nullptr;
  }
}

Json Tags::json() {
  std::map<store::Digest, Facts> known;
  {
    const std::lock_guard lock(mutex_);
    known = known_;
  }
  std::map<store::Digest, Facts> seen;
  Json models = Json::array();
  for (const store::StoredModel& stored : store_.list()) {
    const auto at = known.find(stored.digest);
    const Facts facts = at != known.end() ? at->second : read(stored);
    if (!facts) continue;
    seen[stored.digest] = facts;
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
  known_ = std::move(seen);
  return {{"models", std::move(models)}};
}

}  // namespace billow::api::ollama
