// The sampling options on the command line: Ollama's names, with hyphens.
#pragma once

#include <string>
#include <vector>

#include "engine/sampling/options.h"

namespace CLI {
class App;
}

namespace billow::cli {

struct SamplingFlags {
  engine::SamplingOptions sampling;
  std::vector<std::string> logit_bias;  // "ID=BIAS" or "ID=ban"
  int n_logprobs = -1;                  // negative: none

  void declare(CLI::App& command);
  // The options as given, checked. Throws Error naming the flag that is out of range.
  engine::SamplingOptions checked() const;
};

}  // namespace billow::cli
