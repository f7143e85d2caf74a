// What evaluates a model. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace billow::scheduler {

enum class Engine : uint8_t {
  // Billow's own; llama-server for a model that Billow does not know, and for one with a projector,
  // whose pictures llama-server alone can see
  kAuto,
  kOwn,    // Billow's own
  kLlama,  // llama-server of an installed llama.cpp
};

// "auto", "billow" and "llama".
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
  // Layers that llama-server puts on a GPU; absent: as it likes. Billow's own engine has none.
  std::optional<int> n_gpu_layers{};
  // GGUF files of adapters. A runner of Billow's own engine is not started with them: models of one
  // base share it, and each request names its adapters.
  std::vector<std::string> adapters{};
  // GGUF file of what makes rows of pictures; empty: there is none. Not for Billow's own engine.
  std::string projector{};
  // GGUF file of a draft model, of Billow's own engine alone; empty: there is none.
  std::string draft{};
  bool operator==(const EngineChoice&) const = default;
};

}  // namespace billow::scheduler
