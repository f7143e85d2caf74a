#include "api/model_name.h"

#include <vector>

#include "http/status.h"

namespace billow::api {

std::string model_name_of(const Call& call, std::string in_body, StoredModels& models) {
  if (!in_body.empty()) return in_body;
  const http::Parameters& query = call.request().query;
  if (const auto at = query.find("model"); at != query.end()) return at->second;
  const std::vector<store::StoredModel> all = models.list();
  if (all.size() == 1) return store::display_name(all.front().name);
  throw http::StatusError(400,
                          "model is required: a field \"model\", or ?model=NAME after the path");
}

}  // namespace billow::api
