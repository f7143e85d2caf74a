// Processes that end with the one that started them.
#pragma once

namespace billow::cli {

// From now on this process ends when the process that started it ends, also after this process has
// become another program. Throws Error where the parent has ended already.
void end_with_parent();

}  // namespace billow::cli
