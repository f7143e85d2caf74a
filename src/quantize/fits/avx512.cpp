// The searches for AVX-512.
#include "quant/half.h"
#include "quantize/fits/fits.h"

namespace billow::quantize {
namespace {

constexpr size_t kLanes = 16;

#include "quantize/fits/lanes.inl.h"

#include "quantize/fits/fits.inl.h"

}  // namespace

const Fits kFitsAvx512 = {affine,         refined,      signed_parts, codebook,
                          codebook_block, signed_block, affine_block, positive_block};

}  // namespace billow::quantize
