// The settings of a LoRA adapter, read from peft's adapter_config.json. Plain data, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/sources.h"

namespace billow::convert {

struct AdapterSettings {
  double alpha = 0;
  // By the end of the module's name, in the order of the file. The first match decides, as in peft.
  // Other modules use `alpha`.
  std::vector<std::pair<std::string, double>> alphas;
  bool scales_by_root = false;  // "use_rslora": divides by the square root of the rank
  bool stores_turned = false;   // "fan_in_fan_out": weights are [inputs][outputs]

  // Returns the factor of a module's matrix product. GGUF readers divide the factor by the rank.
  double alpha_of(std::string_view module, uint64_t rank) const;
};

// Reads and validates the settings. Throws Error that names the field for an adapter of another
// kind than LoRA. Also throws Error for each setting that a GGUF adapter cannot express: DoRA,
// whole modules, tokens, repeated layers.
AdapterSettings read_adapter_settings(const Sources& sources);

}  // namespace billow::convert
