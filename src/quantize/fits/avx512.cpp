// The searches for AVX-512.
#define BILLOW_FITS_LANES 16

#include "quantize/fits/fits.inl.h"

namespace billow::quantize {

const Fits kFitsAvx512 = {affine,         refined,      signed_parts, codebook,
                          codebook_block, signed_block, affine_block, positive_block};

}  // namespace billow::quantize
