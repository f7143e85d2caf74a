// Whether a request to make a model makes sense, before anything is done for it. Pure; any thread.
#pragma once

#include "store/create.h"

namespace billow::store {

// Throws Error as create_model() does for a request that is wrong in itself.
void check_create(const CreateRequest& request, const CreateHooks& hooks);

bool is_safetensors(const NamedBlob& blob);
// The model's weights are safetensors.
bool is_converted(const CreateRequest& request);
// The conversion gives the weights their type.
bool makes_weights_of(const CreateRequest& request, const CreateHooks& hooks);

}  // namespace billow::store
