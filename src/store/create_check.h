// Checks a request to create a model before any work begins. Pure functions; thread-safe.
#pragma once

#include "base/error.h"
#include "store/create.h"

namespace billow::store {

// Throws Error as create_model() does, if the request alone shows that it is wrong.
void check_create(const CreateRequest& request, const CreateHooks& hooks);

// Returns the error with the client's name of a file in place of the path of the blob, which the
// client does not know.
Error with_name_of_file(const Error& error, const std::string& path, const std::string& name);

bool is_safetensors(const NamedBlob& blob);
// Returns whether the model's weights are safetensors.
bool is_converted(const CreateRequest& request);
// Returns whether the conversion can produce the requested weight type itself.
bool makes_weights_of(const CreateRequest& request, const CreateHooks& hooks);

}  // namespace billow::store
