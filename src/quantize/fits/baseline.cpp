// The searches for any processor.
#include "quantize/fits/fits.inl.h"

namespace billow::quantize {

const Fits kFitsBaseline = {affine,         refined,      signed_parts, codebook,
                            codebook_block, signed_block, affine_block, positive_block};

}  // namespace billow::quantize
