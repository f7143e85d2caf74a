// mamba: Mamba and Falcon Mamba. All layers are selective state spaces. Falcon Mamba norms the
// inputs and outputs of the state.
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
