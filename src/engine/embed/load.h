// Finds out which models are embedding models, and loads them: encoders or decoders.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/embed/model.h"
#include "engine/embed/plan.h"
#include "engine/engine.h"
#include "gguf/file.h"

namespace billow::engine {

// Returns whether `file` is an embedding model: an encoder, or a decoder that states its pooling.
// Thread-safe.
bool is_embedding_file(const gguf::File& file);

// Loads one model for each parallel pass of the settings. For a decoder loads one model only,
// because its passes share its KV memory. Throws the same Error as load_embed_model(), and for
// invalid sizes.
std::vector<std::unique_ptr<EmbedModel>> load_embed_models(gguf::File file,
                                                           const EngineOptions& options = {},
                                                           const EmbedSettings& settings = {});

// Loads a model. A decoder without a stated pooling gives the last token's hidden state. Throws
// Error with the file and the problem.
std::unique_ptr<EmbedModel> load_embed_model(const std::string& path,
                                             const EngineOptions& options = {});
std::unique_ptr<EmbedModel> load_embed_model(gguf::File file, const EngineOptions& options = {});

}  // namespace billow::engine
