// The name of a model as a request of Ollama's API gives it, and the stored model that it means.
// Pure but for the store; any thread.
#pragma once

#include <string>

#include "api/fields.h"
#include "store/model.h"
#include "store/name.h"
#include "store/store.h"

namespace billow::api::ollama {

// The field "model", or "name" as it was called before; empty where there is neither.
std::string requested_model(const Fields& fields);

// The same as a name. Throws http::StatusError (400) "model is required", and `invalid` where it
// breaks the grammar. An ending ":local" is taken off.
store::Name parse_local(const std::string& text, const std::string& invalid);

// load_model, where what is broken in the store is not the client's fault. Throws
// http::StatusError: 404 with `missing`, 500 for a broken model.
store::Model load_stored(const store::Store& store, const store::Name& name,
                         const std::string& missing);

}  // namespace billow::api::ollama
