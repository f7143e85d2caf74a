// Sampling options of the command line. They have Ollama's names, with hyphens.
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
  int n_logprobs = -1;                  // negative: no log probabilities

  void declare(CLI::App& command);
  // Returns the options. Throws Error if one is out of range; the message names its flag.
  engine::SamplingOptions checked() const;
};

}  // namespace billow::cli
