// Finds the model of a request in APIs where a request need not name one.
#pragma once

#include <string>

#include "api/call.h"
#include "api/stored_models.h"

namespace billow::api {

// Returns the first of these that exists: the name in the request's body, ?model=NAME, the store's
// only model. Throws http::StatusError: 400 if the store has no model or several, 503 if the store
// does not answer.
std::string model_name_of(const Call& call, std::string in_body, StoredModels& models);

}  // namespace billow::api
