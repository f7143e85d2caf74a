#include "base/one_line.h"

#include "base/text.h"
#include "base/utf8.h"

namespace billow {

std::string one_line(std::string_view text, size_t max_bytes) {
  std::string line = utf8::sanitized(trimmed(text).substr(0, max_bytes));
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return std::string(trimmed(line));
}

}  // namespace billow
