#include "api/ollama/requested_name.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/go_text.h"
#include "base/text.h"
#include "http/status.h"

namespace billow::api::ollama {

std::string requested_model(const Fields& fields) {
  const std::string model = fields.text("model");
  const std::string name = fields.text("name");
  return model.empty() ? name : model;
}

std::string without_local(const std::string& text) {
  const store::SourcedName sourced = store::split_source(text);
  // ":cloud" may be the tag of a stored stub.
  return sourced.source == store::Source::kLocal ? sourced.name : text;
}

store::Name parse_local(const std::string& text, const std::string& invalid) {
  if (text.empty()) throw http::StatusError(400, "model is required");
  auto name = store::parse_name(without_local(text));
  if (!name) throw http::StatusError(400, invalid);
  return std::move(*name);
}

store::Name parse_new(const std::string& text, const std::string& invalid) {
  auto name = store::parse_name(text);
  if (!name) throw http::StatusError(400, invalid);
  if (lower_case(name->tag) == "local") {
    throw http::StatusError(400, "the tag of " + go_quoted(text) +
                                     " is not possible: \":local\" after a name means the model "
                                     "of this server; give another tag");
  }
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
