// What adapter_config.json of the peft library says of an adapter (LoRA). Plain data; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "convert/sources.h"

namespace billow::convert {

struct AdapterSettings {
  double alpha = 0;
  std::map<std::string, double> alphas;  // of modules whose names end so; others have `alpha`
  bool scales_by_root = false;           // "use_rslora": by the root of the rank
  bool stores_turned = false;            // "fan_in_fan_out": weights are [inputs][outputs]

  // Of a module's pair. The product of its matrices is multiplied with this, divided by the rank.
  double alpha_of(std::string_view module, uint64_t rank) const;
};

// Throws Error that names the field for another kind of adapter than LoRA, and for everything that
// a GGUF adapter cannot express (DoRA, whole modules, tokens, layers that are repeated).
AdapterSettings read_adapter_settings(const Sources& sources);

}  // namespace billow::convert
