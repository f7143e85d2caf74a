// mamba: Mamba and Falcon Mamba. Layers of a selective state space and nothing else; Falcon Mamba
// norms what the state takes in and gives out.
#include "arch/decoder/read.h"
#include "arch/decoder/read_states.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.uneven = true});
  const bool norms = meta.flag_or("ssm.dt_b_c_rms", false);
  set_recurrent(out, read_mamba(meta, norms ? MambaNorms::kPlain : MambaNorms::kNone));
  return out;
}

}  // namespace

const ArchDef kMamba = {"mamba", style};

}  // namespace billow::arch
