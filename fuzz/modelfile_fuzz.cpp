// Parses any bytes as a Modelfile. The file is rejected with an Error, or its printed form parses
// to the same Modelfile, if it can be printed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "store/modelfile.h"
#include "store/parameters.h"

namespace {

using namespace billow;

bool same(const store::Instruction& a, const store::Instruction& b) {
  return a.kind == b.kind && a.key == b.key && a.value == b.value;
}

void check_printed(const store::Modelfile& modelfile) {
  for (const store::Instruction& instruction : modelfile.instructions) {
    BILLOW_CHECK(utf8::is_valid(instruction.value));
    if (instruction.value.find("\"\"\"") != std::string::npos) return;
  }
  const store::Modelfile again = store::parse_modelfile(store::to_text(modelfile));
  BILLOW_CHECK(std::ranges::equal(modelfile.instructions, again.instructions, same));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const store::Modelfile modelfile =
        store::parse_modelfile({reinterpret_cast<const char*>(data), size});
    check_printed(modelfile);
    const Json params = store::parameters_from_text(modelfile.parameters());
    store::check_options(params);
  } catch (const Error& error) {  // rejected
    // An invalid byte becomes the three bytes of U+FFFD.
    BILLOW_CHECK(std::string_view(error.what()).size() < 3 * size + 500);
  }
  return 0;
}
