// Parses the model name in a request of Ollama's API and loads the stored model. Thread-safe.
#pragma once

#include <string>

#include "api/fields.h"
#include "store/model.h"
#include "store/name.h"
#include "store/store.h"

namespace billow::api::ollama {

// Returns the field "model", or its older form "name"; empty if the request has neither.
std::string requested_model(const Fields& fields);

// Parses a name. Throws http::StatusError (400): "model is required" if it is empty, `invalid` if
// the name is malformed. Removes an ending ":local".
store::Name parse_local(const std::string& text, const std::string& invalid);

// Returns a name without an ending ":local".
std::string without_local(const std::string& text);

// Parses the name of a model that is to be made. Throws http::StatusError (400): `invalid` if the
// name is malformed, and a text about the tag if the name ends in ":local". Such a name means the
// model without this end.
store::Name parse_new(const std::string& text, const std::string& invalid);

// Loads a model. Throws http::StatusError: 404 with `missing`, 500 for a broken model, because the
// client did not cause it.
store::Model load_stored(const store::Store& store, const store::Name& name,
                         const std::string& missing);

}  // namespace billow::api::ollama
