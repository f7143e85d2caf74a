#include "base/test_source_dir.h"

namespace billow {

std::string source_dir() { return BILLOW_SOURCE_DIR; }

}  // namespace billow
