#include "picture_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return billow::image::fuzz_picture(billow::image::Format::kGif, data, size);
}
