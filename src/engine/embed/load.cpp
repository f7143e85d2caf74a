#include "engine/embed/load.h"

#include <utility>

#include "engine/embed/decoder_model.h"
#include "engine/embed/encoder_model.h"

namespace billow::engine {

bool is_embedding_file(const gguf::File& file) {
  return arch::is_encoder(file) || !stated_pooling(file).empty();
}

std::vector<std::unique_ptr<EmbedModel>> load_embed_models(gguf::File file,
                                                           const EngineOptions& options,
                                                           const EmbedSettings& settings) {
  if (arch::is_encoder(file)) return EncoderModel::load(std::move(file), options, settings);
  std::vector<std::unique_ptr<EmbedModel>> models;
  models.push_back(std::make_unique<DecoderModel>(std::move(file), options));
  return models;
}

std::unique_ptr<EmbedModel> load_embed_model(const std::string& path,
                                             const EngineOptions& options) {
  return load_embed_model(gguf::File::open(path), options);
}

std::unique_ptr<EmbedModel> load_embed_model(gguf::File file, const EngineOptions& options) {
  if (arch::is_encoder(file)) return std::make_unique<EncoderModel>(std::move(file), options);
  return std::make_unique<DecoderModel>(std::move(file), options);
}

}  // namespace billow::engine
