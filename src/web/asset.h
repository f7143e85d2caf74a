// The files of the web page as they lie in the program: made by web/tools/embed.mjs from what Vite
// builds. Constant data that lives as long as the program; any thread.
#pragma once

#include <span>
#include <string_view>

namespace billow::web {

struct Asset {
  std::string_view name;  // behind "/ui/": "index.html", "assets/index-Bx2k.js"
  std::string_view type;  // of its content, with the character set
  std::string_view bytes;
  std::string_view gzip;       // the same, compressed; empty where that is no smaller
  std::string_view etag;       // of `bytes`, with quotes
  std::string_view gzip_etag;  // of `gzip`
  bool is_immutable = false;   // its name has a hash of its content
};

// All of them; none where the program was built with BILLOW_WEB=OFF.
std::span<const Asset> embedded_assets() noexcept;

}  // namespace billow::web
