#include "engine/load_model.h"

#include <string>

#include "base/error.h"

namespace billow::engine {
namespace {

template <class Load>
auto with_hint(const Load& load) {
  try {
    return load();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;  // the file is not the problem
    throw Error(error.code(),
                std::string(error.what()) + "; `billow inspect FILE` shows all that it needs");
  }
}

}  // namespace

std::unique_ptr<arch::Model> load_model(const gguf::File& file, const arch::LoadOptions& options) {
  return with_hint([&] { return arch::load_model(file, options); });
}

std::unique_ptr<arch::Encoder> load_encoder(const gguf::File& file,
                                            const arch::LoadOptions& options) {
  return with_hint([&] { return arch::load_encoder(file, options); });
}

}  // namespace billow::engine
