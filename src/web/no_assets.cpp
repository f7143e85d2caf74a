#include "web/asset.h"

namespace billow::web {

std::span<const Asset> embedded_assets() noexcept { return {}; }

}  // namespace billow::web
