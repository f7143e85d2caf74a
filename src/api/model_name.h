// Which model a request means where its API need not name one.
#pragma once

#include <string>

#include "api/call.h"
#include "api/stored_models.h"

namespace billow::api {

// The name in the request's body; where it is empty, that of ?model=NAME; where there is none
// either, that of the store's only model. Throws http::StatusError: 400 where the store has none or
// several, 503 where it does not answer.
std::string model_name_of(const Call& call, std::string in_body, StoredModels& models);

}  // namespace billow::api
