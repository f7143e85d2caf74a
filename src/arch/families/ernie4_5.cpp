// ernie4_5: ERNIE 4.5 without experts. As llama.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) { return read_decoder(meta); }

}  // namespace

const ArchDef kErnie45 = {"ernie4_5", style};

}  // namespace billow::arch
