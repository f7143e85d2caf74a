// Base64 of RFC 4648 with its standard alphabet and padding. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace billow {

std::string base64_encoded(std::string_view bytes);

// nullopt for anything else than whole, padded base64; line ends are skipped. `fault`, where given,
// is then the offset of the first byte that is wrong.
std::optional<std::string> base64_decoded(std::string_view text, size_t* fault = nullptr);

}  // namespace billow
