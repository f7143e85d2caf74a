// ernie4_5: ERNIE 4.5 without experts. As llama.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta, size_t max_context) {
  return read_decoder(meta, max_context);
}

}  // namespace

const ArchDef kErnie45 = {"ernie4_5", style};

}  // namespace billow::arch
