// nemotron: Nemotron 3 and 4, Minitron. Layer norm (files hold its weights with 1 added), squared
// ReLU without a gate; part of a head rotates.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  return read_decoder(meta, {.rope = kernels::RopeKind::kHalves,
                             .norm = NormKind::kMean,
                             .activation = nn::Activation::kReluSquared,
                             .gated = false});
}

}  // namespace

const ArchDef kNemotron = {"nemotron", style};

}  // namespace billow::arch
