// internlm2: InternLM 2 and 2.5. As llama.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) { return read_decoder(meta); }

}  // namespace

const ArchDef kInternLm2 = {"internlm2", style};

}  // namespace billow::arch
