#include "cpu/features.h"
#include "quantize/fits/fits.h"

namespace billow::quantize {

const Fits& fits() noexcept {
  const cpu::Features& features = cpu::features();
  if (features.avx512_vnni) return kFitsAvx512;
  return features.avx2 ? kFitsAvx2 : kFitsBaseline;
}

}  // namespace billow::quantize
