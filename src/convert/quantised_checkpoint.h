// Checkpoints whose weights are quantised already ("quantization_config" of config.json). FP8,
// integers of compressed-tensors, GPTQ and ModelOpt's FP8 become floats when they are read, as
// llama.cpp's converter makes them; NVFP4 becomes GGUF's NVFP4 without loss. One thread.
#pragma once

#include <unordered_map>
#include <vector>

#include "convert/planned_tensor.h"
#include "convert/sources.h"
#include "convert/weights.h"

namespace billow::convert {

// What a tensor in NVFP4 is multiplied by beside the scales of its groups, and what its input was
// multiplied by when the model was made.
struct Nvfp4Scales {
  float weight = 1;
  float input = 1;
};

// Which weights stay as they are quantised.
struct QuantisedCheckpoint {
  std::unordered_map<const SafeTensor*, Nvfp4Scales> nvfp4;  // tensors of dtype "NVFP4"

  // Whether all of a tensor's rows come from such weights.
  bool keeps(const PlannedTensor& tensor) const;
  // Adds NAME.scale and NAME.input_scale for those of `plan` that have scales other than 1.
  void add_scales(std::vector<PlannedTensor>& plan) const;
};

// Puts the weights that are quantised into `weights` as tensors of floats under their plain names,
// or of NVFP4, and takes all that belongs to them. Leaves MXFP4 to the model's family. Throws
// Error: kUnsupported for a way of quantising that is not known, naming it, kInvalidInput for
// tensors that do not fit each other. REQUIRES: `weights` lives longer than its readers.
QuantisedCheckpoint open_quantised(const Sources& sources, Weights& weights);

}  // namespace billow::convert
