// Which models make vectors of texts, and loading one of them, be it an encoder or a decoder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/embed/model.h"
#include "engine/embed/plan.h"
#include "engine/engine.h"
#include "gguf/file.h"

namespace billow::engine {

// Whether the model of `file` is made for vectors: an encoder, or a decoder that states how it is
// pooled. Any thread.
bool is_embedding_file(const gguf::File& file);

// A model for each pass at once that the settings have; of a decoder one alone, as its passes share
// its KV memory. Throws Error as load_embed_model(), and for sizes that make no sense.
std::vector<std::unique_ptr<EmbedModel>> load_embed_models(gguf::File file,
                                                           const EngineOptions& options = {},
                                                           const EmbedSettings& settings = {});

// Throws Error naming the file and what is wrong. A decoder that states no pooling gives the last
// token's hidden state.
std::unique_ptr<EmbedModel> load_embed_model(const std::string& path,
                                             const EngineOptions& options = {});
std::unique_ptr<EmbedModel> load_embed_model(gguf::File file, const EngineOptions& options = {});

}  // namespace billow::engine
