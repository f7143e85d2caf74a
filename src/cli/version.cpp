#include "cli/version.h"

#include "billow_commit.h"
#include "kernels/kernel_table.h"

namespace billow::cli {

std::string version_text() {
#if defined(__clang__)
  const std::string compiler = "Clang " __clang_version__;
#else
  const std::string compiler = "GCC " __VERSION__;
#endif
  return "billow " BILLOW_VERSION " (commit " BILLOW_COMMIT "), " + compiler + ", kernels " +
         std::string(kernels::select_table().name);
}

}  // namespace billow::cli
