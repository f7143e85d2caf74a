// chatglm: ChatGLM 3, GLM 4 9B of 2024 and similar models. As llama, but one matrix holds Q, K and
// V, with biases, and another holds gate and up. Half of a head rotates.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) { return read_decoder(meta); }

}  // namespace

const ArchDef kChatGlm = {"chatglm", style};

}  // namespace billow::arch
