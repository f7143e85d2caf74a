// GET /v1/models and /v1/models/:model in Anthropic's form, for requests that name a version of its
// API. Thread-safe.
#pragma once

#include "api/call.h"
#include "api/stored_models.h"

namespace billow::api::anthropic {

// Returns true if the request has the header "anthropic-version".
bool is_client(const http::Request& request);

// Answers with
// {"data":[{"type":"model","id","display_name","created_at","lifecycle"}],"has_more","first_id","last_id"}.
// The query limits the list: ?limit= (default 20), ?after_id= and ?before_id=. Throws
// http::StatusError (400).
void list_models(Call& call, StoredModels& models);

// Answers with one model, under the name that the client wrote.
void show_model(Call& call, const store::StoredModel& model, const std::string& id);

}  // namespace billow::api::anthropic
