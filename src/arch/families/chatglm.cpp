// chatglm: ChatGLM 3, GLM 4 9B of 2024 and its kin. As llama; Q, K and V stand in one matrix with
// biases, gate and up in another, and half of a head rotates.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) { return read_decoder(meta); }

}  // namespace

const ArchDef kChatGlm = {"chatglm", style};

}  // namespace billow::arch
