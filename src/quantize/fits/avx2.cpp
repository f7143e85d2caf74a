// The searches for AVX2.
#define BILLOW_FITS_LANES 8

#include "quantize/fits/fits.inl.h"

namespace billow::quantize {

const Fits kFitsAvx2 = {affine,         refined,      signed_parts, codebook,
                        codebook_block, signed_block, affine_block, positive_block};

}  // namespace billow::quantize
