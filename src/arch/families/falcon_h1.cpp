// falcon-h1: Falcon H1. Each layer has attention in parallel with the state space of Mamba 2. The
// converter has multiplied the weights with the model's multipliers.
#include "arch/decoder/read.h"
#include "arch/decoder/read_states.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  Mamba2Style mixer = read_mamba2(meta);
  mixer.has_norm = has_tensor(meta, 0, "ssm_norm.weight");  // some sizes have no norm
  for (LayerStyle& layer : out.layers) layer.beside = mixer;
  return out;
}

}  // namespace

const ArchDef kFalconH1 = {"falcon-h1", style};

}  // namespace billow::arch
