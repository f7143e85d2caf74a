// Parses any bytes as a model name, a manifest, a config and messages. They are rejected, or their
// printed form parses to the same value. A name never leads out of its folder.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "store/manifest.h"
#include "store/model.h"
#include "store/name.h"

namespace {

using namespace billow;

void check_name(std::string_view text) {
  const auto name = store::parse_name(text);
  if (!name) return;
  for (const std::string& printed :
       {store::display_name(*name), store::short_name(*name), store::full_name(*name)}) {
    const auto again = store::parse_name(printed);
    BILLOW_CHECK(again && store::same_model(*again, *name));
  }
  const std::filesystem::path path = store::manifest_path(*name);
  BILLOW_CHECK(path.is_relative() && path == path.lexically_normal());
  BILLOW_CHECK(std::distance(path.begin(), path.end()) == 4);
  for (const auto& part : path) BILLOW_CHECK(part != ".." && part != "." && !part.empty());
}

// Checks that `to_text(read(text))` does not change if it is parsed and printed again.
template <typename Read>
void check_stable(std::string_view text, Read read) {
  try {
    const std::string printed = to_text(read(text, "fuzz"));
    BILLOW_CHECK(to_text(read(printed, "printed")) == printed);
  } catch (const Error& error) {  // rejects only the input, never the printed text
    BILLOW_CHECK(std::string_view(error.what()).starts_with("fuzz: "));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_name(text);
  if (const auto digest = store::Digest::parse(text)) {
    BILLOW_CHECK(store::Digest::parse(digest->file_name()) == digest);
    BILLOW_CHECK(store::Digest::parse(digest->text()) == digest);
  }
  try {
    store::split_source(text);
  } catch (const Error&) {  // the text names both sources
  }
  check_stable(text, store::parse_manifest);
  check_stable(text, store::parse_config);
  check_stable(text, store::parse_messages);
  return 0;
}
