// The files of the web page, embedded in the program. web/tools/embed.mjs makes them from Vite's
// output. Constant data with the lifetime of the program. Thread-safe.
#pragma once

#include <span>
#include <string_view>

namespace billow::web {

struct Asset {
  std::string_view name;  // path after "/ui/": "index.html", "assets/index-Bx2k.js"
  std::string_view type;  // content type, with the character set
  std::string_view bytes;
  std::string_view gzip;       // compressed bytes; empty if they are not smaller
  std::string_view etag;       // ETag of `bytes`, with quotes
  std::string_view gzip_etag;  // ETag of `gzip`
  bool is_immutable = false;   // the name contains a hash of the content
};

// Returns all files; empty if the program was built with BILLOW_WEB=OFF.
std::span<const Asset> embedded_assets() noexcept;

}  // namespace billow::web
