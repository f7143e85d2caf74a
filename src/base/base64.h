// Base64 of RFC 4648 with its standard alphabet and padding. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace billow {

std::string base64_encoded(std::string_view bytes);

// Decodes padded base64 and ignores line ends. Returns nullopt for any other text, with the offset
// of the first wrong byte in `fault` if that is not null.
std::optional<std::string> base64_decoded(std::string_view text, size_t* fault = nullptr);

}  // namespace billow
