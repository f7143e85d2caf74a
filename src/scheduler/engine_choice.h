// The engine that evaluates a model. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace billow::scheduler {

enum class Engine : uint8_t {
  // Billow's own engine. llama-server if Billow does not support the model or its projector.
  kAuto,
  kOwn,    // Billow's own
  kLlama,  // llama-server from an installed llama.cpp
};

// Returns "auto", "billow" or "llama".
constexpr std::string_view engine_name(Engine engine) noexcept {
  return engine == Engine::kOwn ? "billow" : engine == Engine::kLlama ? "llama" : "auto";
}
constexpr std::optional<Engine> find_engine(std::string_view name) noexcept {
  for (const Engine engine : {Engine::kAuto, Engine::kOwn, Engine::kLlama})
    if (engine_name(engine) == name) return engine;
  return std::nullopt;
}

struct EngineChoice {
  Engine engine = Engine::kAuto;
  // Layers that llama-server puts on a GPU; absent: llama-server decides. Not for Billow's own
  // engine.
  std::optional<int> n_gpu_layers{};
  // GGUF files of adapters. A runner of Billow's own engine starts without them: models with the
  // same base share the runner, and each request names its adapters.
  std::vector<std::string> adapters{};
  // GGUF file of the projector for pictures; empty: no projector.
  std::string projector{};
  // GGUF file of a draft model; empty: no draft model. Only for Billow's own engine.
  std::string draft{};
  bool operator==(const EngineChoice&) const = default;
};

}  // namespace billow::scheduler
