// The searches for any processor.
#include "quantize/fits/fits.h"

#include "quant/half.h"

namespace billow::quantize {
namespace {

constexpr size_t kLanes = 4;

#include "quantize/fits/lanes.inl.h"

#include "quantize/fits/fits.inl.h"

}  // namespace

const Fits kFitsBaseline = {affine,         refined,      signed_parts, codebook,
                            codebook_block, signed_block, affine_block, positive_block};

}  // namespace billow::quantize
