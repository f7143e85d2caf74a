#include "api/ollama/requested_name.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "http/status.h"

namespace billow::api::ollama {

std::string requested_model(const Fields& fields) {
  const std::string model = fields.text("model");
  const std::string name = fields.text("name");
  return model.empty() ? name : model;
}

store::Name parse_local(const std::string& text, const std::string& invalid) {
  if (text.empty()) throw http::StatusError(400, "model is required");
  const store::SourcedName sourced = store::split_source(text);
  // ":cloud" may be the tag of a stored stub.
  const bool is_local = sourced.source == store::Source::kLocal;
  auto name = store::parse_name(is_local ? sourced.name : text);
  if (!name) throw http::StatusError(400, invalid);
  return std::move(*name);
}

store::Model load_stored(const store::Store& store, const store::Name& name,
                         const std::string& missing) {
  std::optional<store::Model> model;
  try {
    model = store::load_model(store, name);
  } catch (const Error& error) {
    throw http::StatusError(500, error.what());
  }
  if (!model) throw http::StatusError(404, missing);
  return std::move(*model);
}

}  // namespace billow::api::ollama
