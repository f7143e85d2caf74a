// Parses any bytes as an importance matrix. The bytes are rejected with an Error that contains the
// name, or give entries of finite numbers. There are no more numbers than the bytes can hold.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "quantize/importance.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace billow;
  try {
    const auto importance =
        quantize::parse_importance(std::as_bytes(std::span(data, size)), "fuzz");
    BILLOW_CHECK(!importance.entries.empty());
    size_t n_values = 0;
    for (const auto& [name, values] : importance.entries) {
      BILLOW_CHECK(!values.empty());
      n_values += values.size();
      for (const float value : values) BILLOW_CHECK(std::isfinite(value));
    }
    BILLOW_CHECK(n_values <= size / sizeof(float));
  } catch (const Error& error) {
    BILLOW_CHECK(std::string_view(error.what()).find("fuzz") != std::string_view::npos);
  }
  return 0;
}
