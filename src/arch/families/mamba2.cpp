// mamba2: Mamba 2 and Codestral Mamba. All layers are state spaces with heads.
#include "arch/decoder/read.h"
#include "arch/decoder/read_states.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.uneven = true});
  set_recurrent(out, read_mamba2(meta));
  return out;
}

}  // namespace

const ArchDef kMamba2 = {"mamba2", style};

}  // namespace billow::arch
